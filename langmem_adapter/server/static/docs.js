"use strict";

// swagger-ui.css has its dark colours below a class, not below a media query.
const dark = matchMedia("(prefers-color-scheme: dark)");
const shade = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", shade);
shade();

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false, // a key stays in this page's memory
  validatorUrl: "none", // the document is not sent anywhere
});
