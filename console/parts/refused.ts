import { ApiError } from "../api.ts";
import { html, type View } from "../html.ts";

/** Error message with the request id. */
export function Refused({ error }: { error: unknown }): View {
  if (error === undefined || error === null) return null;
  const message = error instanceof Error ? error.message : String(error);
  const requestId = error instanceof ApiError ? error.requestId : "";
  return html`<p class="refused" role="alert">✕ ${message}${requestId && html` <small>Request ${requestId}</small>`}</p>`;
}
