// Connects this control plane to data paths of hosts: the only place that decides between TLS and plain HTTP, and which
// certificates both sides present. Plain HTTP to other machines is refused unless the operator allows the host. The client
// certificate is issued here, and renewed at the first connection after two thirds of its life.
import type { SecureContext } from "node:tls";
import { isLoopbackHost } from "../../proto/address-rules.ts";
import type { HostId } from "../../proto/ids.ts";
import { dialOptions, type PeerOptions, PeerRefused, peerContext } from "../../proto/peer-tls.ts";
import type { OwnCertificate } from "./authority.ts";

export interface DataPathAddress {
  readonly hostId: HostId;
  /** As announced by the agent: `https` is mutual TLS, `http` is plain. */
  readonly origin: string;
}

/** Returns the options for one new connection. Throws PeerRefused. */
export type Dial = (to: DataPathAddress) => PeerOptions;

export function createDial(deps: {
  readonly issue: () => OwnCertificate;
  readonly isRevoked: (host: HostId) => boolean;
  /** True when the operator allows plain HTTP to a host on another machine. */
  readonly mayBePlain: (hostname: string) => boolean;
  readonly nowMs: () => number;
}): Dial {
  let held: { readonly context: SecureContext; readonly renewAtMs: number } | undefined;

  function context(): SecureContext {
    const nowMs = deps.nowMs();
    if (!held || nowMs >= held.renewAtMs) {
      const own = deps.issue();
      const { certChainPem: certificatePem, keyPem, caPem } = own;
      const renewAtMs = nowMs + ((own.notAfterMs - nowMs) * 2) / 3;
      held = { context: peerContext({ certificatePem, keyPem, caPem }), renewAtMs };
    }
    return held.context;
  }

  return ({ hostId, origin }) => {
    if (deps.isRevoked(hostId)) throw new PeerRefused(`is revoked: host ${hostId}`);
    if (origin.startsWith("https:")) return dialOptions(context(), hostId);
    const { hostname = "" } = URL.parse(origin) ?? {};
    if (isLoopbackHost(hostname) || deps.mayBePlain(hostname)) return {};
    throw new PeerRefused(
      "does not use TLS, which is required for hosts on other machines: update its agent, remove STOKER_INGRESS_TLS=off there, or " +
        "list the host in STOKER_DATA_PATH_PLAIN of every control plane",
    );
  };
}

/** Returns a warning for a host with an unencrypted data path to another machine. */
export function plainWarning(origin: string): string | undefined {
  const url = URL.parse(origin);
  if (url?.protocol !== "http:" || isLoopbackHost(url.hostname)) return undefined;
  return `data_path_plain: prompts, answers and weights to and from ${origin} are not encrypted`;
}
