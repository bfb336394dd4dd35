import type { ServerResponse } from "node:http";
import { apiHeaders } from "../connections/secure-headers.ts";
import type { RequestState } from "../core/request-state.ts";
import type { Refusal } from "./error-body.ts";
import { renderError } from "./render-error.ts";

/** Writes the refusal of a request that Fastify does not handle, unless its client has disconnected. */
export function writeRefusal(refusal: Refusal, state: RequestState, res: ServerResponse): void {
  if (state.isClosed) return;
  const { status, headers, body } = renderError(refusal, state.dialect, state.requestId);
  res.writeHead(status, [
    ...headers,
    // A client that sends more than is allowed may go on sending.
    ...(refusal.code === "body_too_large" ? ["connection", "close"] : []),
    ...apiHeaders(state.isSecure),
    "content-length",
    String(Buffer.byteLength(body)),
    ...state.headers(),
  ]);
  res.end(body);
}
