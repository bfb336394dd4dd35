// What an answer says of a model that its owner takes back: `Deprecation` (RFC 9745) is a structured date in Unix seconds,
// `Sunset` (RFC 8594), the moment from which it may be gone, an HTTP date.
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { ModelAbout } from "../../catalog/model-meta.ts";

const none: readonly string[] = [];

/** Names and values, in turn; none for a model that stays. */
export function deprecationHeaders({
  deprecatedAtMs,
  sunsetAtMs,
}: Pick<ModelAbout, "deprecatedAtMs" | "sunsetAtMs">): readonly string[] {
  if (deprecatedAtMs === null && sunsetAtMs === null) return none;
  const headers: string[] = [];
  if (deprecatedAtMs !== null) headers.push("deprecation", `@${unixSeconds(deprecatedAtMs)}`);
  if (sunsetAtMs !== null) headers.push("sunset", new Date(sunsetAtMs).toUTCString());
  return headers;
}
