// Requests a WebSocket from a dashboard, which accepts it or sends another response. undici's own `upgrade` drops that response, so
// a dashboard that sends 403 or 404 would look unreachable.
import { type Duplex, Readable } from "node:stream";
import type { Dispatcher, Pool } from "undici";

/** `headers`: names and values in turn. */
export type Upgraded =
  | { readonly kind: "upgraded"; readonly headers: readonly string[]; readonly socket: Duplex }
  | { readonly kind: "refused"; readonly status: number; readonly headers: readonly string[]; readonly body: Readable };

/** Rejects with the cause when there is no response, or with the signal's reason. */
export function askUpgrade(
  pool: Pool,
  { path, headers, signal }: { readonly path: string; readonly headers: string[]; readonly signal: AbortSignal },
): Promise<Upgraded> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    let abort = (): void => reject(signal.reason);
    const stop = () => abort();
    signal.addEventListener("abort", stop, { once: true });
    const answered = () => signal.removeEventListener("abort", stop);
    let body: Readable | undefined;

    pool.dispatch(
      { method: "GET", path, headers, upgrade: "websocket" },
      {
        onRequestStart(controller) {
          // The request may have waited for a connection.
          if (signal.aborted) return controller.abort(signal.reason);
          abort = () => controller.abort(signal.reason);
        },
        onRequestUpgrade(controller, _status, _headers, socket) {
          answered();
          resolve({ kind: "upgraded", headers: textOf(controller), socket });
        },
        onResponseStart(controller, status) {
          if (status < 200) return;
          answered();
          body = new Readable({
            read: () => controller.resume(),
            destroy(error, done) {
              if (!body?.readableEnded) controller.abort(error ?? new Error("the client disconnected"));
              done(error);
            },
          });
          resolve({ kind: "refused", status, headers: textOf(controller), body });
        },
        onResponseData(controller, chunk) {
          if (body?.push(chunk) === false) controller.pause();
        },
        onResponseEnd() {
          body?.push(null);
        },
        onResponseError(_controller, error) {
          answered();
          if (body) body.destroy(error);
          else reject(signal.aborted ? signal.reason : error);
        },
      },
    );
  });
}

const textOf = ({ rawHeaders }: Dispatcher.DispatchController): string[] =>
  ((rawHeaders ?? []) as (Buffer | string)[]).map((part) =>
    typeof part === "string" ? part : part.toString("latin1"),
  );
