import { html, type View } from "../html.ts";
import { signOf } from "../words.ts";

export function Status({ of }: { of: string }): View {
  return html`<span class=${`status s${signOf(of).codePointAt(0)}`}><span aria-hidden="true">${signOf(of)}</span> ${of}</span>`;
}
