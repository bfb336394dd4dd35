// Certificates as an installation gives them, by a real authority that is made for one test.
import { certificateRequest, makeKey } from "../../agent/session/enroll.ts";
import { type Authority, makeAuthority, openAuthority, pem } from "../../control-plane/fleet/authority.ts";
import type { Dial } from "../../control-plane/fleet/dial.ts";
import type { HostId } from "../../proto/ids.ts";
import type { OwnCertificate } from "../../proto/peer-tls.ts";

/** To agents without TLS. */
export const plainDial: Dial = () => ({});

export const newAuthority = (lifeMs = 3_600_000): Authority =>
  openAuthority(makeAuthority(Date.now()), { nowMs: Date.now, lifeMs });

export function hostCertificate(
  authority: Authority,
  host: string,
  notAfterMs = Date.now() + 3_600_000,
): OwnCertificate {
  const keyPem = makeKey();
  const request = authority.readRequest(certificateRequest(keyPem));
  if (!request) throw new Error("the authority does not read its own kind of request");
  const certificate = authority.issueNode(request, host as HostId, { ...authority.times(), notAfterMs });
  return { certificatePem: pem("CERTIFICATE", certificate), keyPem, caPem: pem("CERTIFICATE", authority.certificate) };
}

export function gatewayCertificate(authority: Authority, id = "replica-1"): OwnCertificate {
  const { certChainPem: certificatePem, keyPem, caPem } = authority.issueGateway(id);
  return { certificatePem, keyPem, caPem };
}
