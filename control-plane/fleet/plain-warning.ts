// Hosts whose data path leaves their machine unencrypted. Pure.
import { isLoopbackHost } from "../../proto/address-rules.ts";

/** Returns a warning for a host with an unencrypted data path to another machine. */
export function plainWarning(origin: string): string | undefined {
  const url = URL.parse(origin);
  if (url?.protocol !== "http:" || isLoopbackHost(url.hostname)) return undefined;
  return `data_path_plain: prompts, answers and weights to and from ${origin} are not encrypted`;
}
