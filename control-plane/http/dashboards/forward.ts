// Forwards one request between a browser and a dashboard; cancelled when either side disconnects.

import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Dispatcher, Pool } from "undici";
import { DashboardBusy, DashboardHostUnavailable, dashboardUnreachable } from "../../agent-instances/errors.ts";
import type { ServiceError } from "../../service-error.ts";
import { drainBody } from "../body/drain-body.ts";
import { toBrowser, toDashboard, type Visitor } from "./dashboard-headers.ts";
import type { DashboardMetrics } from "./dashboard-metrics.ts";

/** Throws the error of `failure` before anything was sent; later errors close the connection. */
export async function forwardRequest(
  pool: Pool,
  request: IncomingMessage,
  response: ServerResponse,
  visitor: Visitor,
  metrics: Pick<DashboardMetrics, "passed">,
): Promise<void> {
  const leaving = new AbortController();
  response.once("close", () => leaving.abort());
  request.on("data", (part: Buffer) => metrics.passed("in", part.length));
  const answer = await pool
    .request({
      method: request.method as Dispatcher.HttpMethod,
      path: request.url as string,
      headers: toDashboard(request.rawHeaders, visitor),
      // Abandoning the body must not close the connection of the response.
      body: hasBody(request) ? request.pipe(new PassThrough()) : null,
      signal: leaving.signal,
      responseHeaders: "raw",
    })
    .catch((error: unknown) => {
      throw failure(error);
    });
  const headers = toBrowser(answer.headers as unknown as string[], visitor.cookie);
  response.writeHead(answer.statusCode, headers);
  // Clients of a stream wait for the headers before its first event.
  response.flushHeaders();
  answer.body.on("data", (part: Buffer) => metrics.passed("out", part.length));
  await pipeline(answer.body, response);
  if (request.complete) return;
  // The response ended before the body was read: drain the rest, because the connection's next request follows it.
  request.unpipe();
  drainBody(request, () => {
    if (!request.complete) request.socket.destroy();
  });
}

/** Returns the error for a client whose dashboard did not respond. */
export function failure(error: unknown): ServiceError {
  if (error instanceof DashboardBusy || error instanceof DashboardHostUnavailable) return error;
  return dashboardUnreachable(error);
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
