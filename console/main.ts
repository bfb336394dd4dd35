// Entry of the console: one page that moves within itself. What it may load stands in the policy of its answer.
import { render } from "preact";
import { App } from "./app.ts";
import { html } from "./html.ts";
import { focusSearch, followLinks } from "./place.ts";

document.addEventListener("click", followLinks);
document.addEventListener("keydown", focusSearch);
// What stands there until every file has come.
document.body.replaceChildren();
render(html`<${App} />`, document.body);
