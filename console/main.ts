// Entry of the console, a single-page application.
import { render } from "preact";
import { App } from "./app.ts";
import { html } from "./html.ts";
import { focusSearch, followLinks } from "./place.ts";

document.addEventListener("click", followLinks);
document.addEventListener("keydown", focusSearch);
document.body.replaceChildren();
render(html`<${App} />`, document.body);
