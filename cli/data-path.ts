/**
 * The agent's settings for a data path that others reach at `advertise`: it listens there, at the address itself where that is
 * one of this machine's (`own`), else at all of them, as for a name or behind a forwarded port. None where `advertise` names no port.
 */
export function dataPathSettings(advertise: string | undefined, own: readonly string[]): Record<string, string> {
  const origin = URL.parse(advertise ?? "");
  if (!origin?.port) return {};
  const host = origin.hostname.replace(/^\[|\]$/g, "");
  return { STOKER_INGRESS_HOST: own.includes(host) ? host : "0.0.0.0", STOKER_INGRESS_PORT: origin.port };
}
