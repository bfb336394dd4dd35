import type { IncomingHttpHeaders } from "node:http";
import { forbidden } from "../../service-error.ts";
import { ProtocolError } from "../errors/errors.ts";

/** Throws when a page of another origin asks for a WebSocket. `allowed`: other origins that may; `*`: all. */
export function checkOrigin({ origin, host }: IncomingHttpHeaders, allowed: ReadonlySet<string>): void {
  // Programs send none.
  if (origin === undefined || allowed.has("*") || allowed.has(origin)) return;
  if (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()) return;
  throw forbidden("origin_not_allowed", "Pages of this origin may not connect. Add it to STOKER_CORS_ORIGINS.");
}

/** A request for a path of WebSockets without an upgrade. */
export const upgradeRequired = () =>
  new ProtocolError(
    426,
    "upgrade_required",
    "This path serves WebSockets only. If you sent an upgrade, a proxy on the way does not pass it.",
  );
