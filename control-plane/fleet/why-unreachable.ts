// Describes why a request did not reach a host's data path, for the host's condition. Continues a sentence that starts with
// the host's address.
import { PeerRefused } from "../../proto/peer-tls.ts";

const otherInstallation =
  "has a certificate of another installation or an unknown one: another program listens there, or terminates TLS before the agent";

/** Keyed by error code. */
const sentences: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "has an expired certificate: its agent renews it over its session; see its log",
  CERT_NOT_YET_VALID: "has a certificate that is not valid yet: compare the clocks of host and control plane",
  CERT_SIGNATURE_FAILURE: otherInstallation,
  DEPTH_ZERO_SELF_SIGNED_CERT: otherInstallation,
  SELF_SIGNED_CERT_IN_CHAIN: otherInstallation,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: otherInstallation,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: otherInstallation,
};

/** OpenSSL puts the cause in the text only. */
const protocolErrors: readonly (readonly [RegExp, string])[] = [
  [
    /wrong version number|packet length too long/,
    "does not use TLS, although its address requires it: another program listens there",
  ],
  [/alert handshake failure/, "has no certificate yet: its agent gets one when it joins; see its log"],
];

/** `isSecure`: over TLS. A peer that rejects the certificate closes the connection. */
export function whyUnreachable(error: unknown, isSecure: boolean, limitMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof PeerRefused) return error.message;
  const cause = error.cause as
    | { readonly name?: string; readonly code?: string; readonly message?: string }
    | undefined;
  if (error.name === "TimeoutError" || cause?.name === "TimeoutError")
    return `did not respond within ${limitMs / 1000} s`;
  const { code = cause?.code } = error as NodeJS.ErrnoException;
  const known = sentences[code ?? ""] ?? protocolErrors.find(([text]) => text.test(error.message))?.[1];
  if (known !== undefined) return known;
  if (isSecure && code === "ECONNRESET")
    return "closed the connection (ECONNRESET): it may reject this control plane's certificate because its clock is wrong; see its agent's log";
  return code ?? cause?.message ?? error.message;
}
