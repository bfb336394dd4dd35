import { ApiError } from "../api.ts";
import { html, type View } from "../html.ts";

/** Why something did not happen, in the server's own words, with the number to name when asking about it. */
export function Refused({ error }: { error: unknown }): View {
  if (error === undefined || error === null) return null;
  const message = error instanceof Error ? error.message : String(error);
  const requestId = error instanceof ApiError ? error.requestId : "";
  return html`<p class="refused" role="alert">✕ ${message}${requestId && html` <small>Request ${requestId}</small>`}</p>`;
}
