import { useState } from "preact/hooks";
import { html, type View } from "../html.ts";

/** Button that copies a text. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }): View {
  const [result, setResult] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setResult("Copied"),
      // Browsers block the clipboard without HTTPS.
      () => setResult("Select the text and copy it"),
    );
  return html`<button type="button" class="second small" onClick=${copy}>${result || label}</button>`;
}

export function Code({ text }: { text: string }): View {
  return html`<div class="code"><${Copy} text=${text} /><pre><code>${text}</code></pre></div>`;
}
