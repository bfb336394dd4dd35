import { useState } from "preact/hooks";
import { html, type View } from "../html.ts";

/** Text to take along, with a button that copies it. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }): View {
  const [said, setSaid] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setSaid("Copied"),
      // Without HTTPS a browser lends its clipboard to nobody.
      () => setSaid("Select the text and copy it"),
    );
  return html`<button type="button" class="second small" onClick=${copy}>${said || label}</button>`;
}

export function Code({ text }: { text: string }): View {
  return html`<div class="code"><${Copy} text=${text} /><pre><code>${text}</code></pre></div>`;
}
