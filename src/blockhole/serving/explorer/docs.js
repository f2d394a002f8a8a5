// The page of the API: what /openapi.json says, with every request ready to be sent.

// @ts-expect-error: it comes from another script, of the package fastapi-swagger.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null, tryItOutEnabled: true });
