import { useState } from "preact/hooks";
import { html, type View } from "../html.ts";
import { Refused } from "./refused.ts";

interface ActProps {
  readonly label: string;
  /** Question for confirmation. */
  readonly sure?: string;
  /** Equivalent CLI command. */
  readonly command?: string;
  readonly onAct: () => Promise<unknown>;
}

/** Button that runs an action and shows its error. */
export function Act({ label, sure, command, onAct }: ActProps): View {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const act = async () => {
    if (sure !== undefined && !confirm(sure)) return;
    setBusy(true);
    setError(undefined);
    await onAct().catch(setError);
    setBusy(false);
  };
  return html`<span class="act">
    <button type="button" class="second small" disabled=${isBusy} title=${command} onClick=${act}>${label}</button>
    ${command && html` <code class="command">${command}</code>`}
    <${Refused} error=${error} />
  </span>`;
}
