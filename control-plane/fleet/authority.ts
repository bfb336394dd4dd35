// Certificate authority of the installation. It signs three kinds of certificates, distinguished by their SAN:
// `spiffe://stoker/node/<id>`, `spiffe://stoker/control-plane` (the server agents connect to) and
// `spiffe://stoker/gateway/<id>` (the client of their data paths).
import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from "node:crypto";
import type { HostId } from "../../proto/ids.ts";
import { gatewayUri, hostUri, peerOf } from "../../proto/peer-tls.ts";
import { keyOfRequest, pem, signCertificate, spkiOf } from "./certificate-der.ts";

export interface MadeAuthority {
  /** X.509, DER. */
  readonly certificate: Buffer;
  /** PKCS#8, DER. */
  readonly key: Buffer;
}

export interface NodeRequest {
  readonly publicKey: KeyObject;
  /** SHA-256 of the public key (SPKI). */
  readonly keyHash: Buffer;
}

export interface IssuedTimes {
  /** Hex. */
  readonly serial: string;
  readonly notAfterMs: number;
}

export type NodeIdentity =
  | { readonly ok: true; readonly hostId: HostId; readonly keyHash: Buffer; readonly notAfterMs: number }
  | { readonly ok: false; readonly why: string };

export interface OwnCertificate {
  /** The leaf, then the authority: an agent that knows only its hash reads it here. */
  readonly certChainPem: string;
  readonly keyPem: string;
  readonly caPem: string;
  readonly notAfterMs: number;
}

export interface Authority {
  /** X.509, DER. */
  readonly certificate: Buffer;
  /** SHA-256 of the certificate, base64url: agents pin it on first contact. */
  readonly hash: string;
  /** Undefined unless it is a PKCS#10 signed by its own P-256 key. */
  readRequest(csr: Uint8Array): NodeRequest | undefined;
  /** Validity and serial of a host's next certificate, so that they can be stored before it is issued. */
  times(): IssuedTimes;
  /** DER. */
  issueNode(request: NodeRequest, host: HostId, times: IssuedTimes): Buffer;
  /** Creates a key of this process with a certificate that identifies the control plane to agents. */
  issueOwn(): OwnCertificate;
  /** The same for connections to data paths. `id`: of the replica. */
  issueGateway(id: string): OwnCertificate;
  /** Returns the host of a valid certificate signed here. The TLS handshake proves that the peer holds its key. */
  identify(certificate: Buffer): NodeIdentity;
}

const authorityName = "Stoker nodes";
const ownName = "spiffe://stoker/control-plane";
const dayMs = 86_400_000;
const authorityLifeMs = 20 * 365 * dayMs;
const ownLifeMs = 30 * dayMs;
/** Tolerates host clocks that are hours behind. */
const backdateMs = dayMs;
/** Renewed after two thirds of it. */
export const nodeLifeMs = 3 * dayMs;

export function makeAuthority(nowMs: number): MadeAuthority {
  const { privateKey, publicKey } = newKey();
  const certificate = signCertificate(
    {
      serial: newSerial(),
      subject: authorityName,
      issuer: authorityName,
      notBefore: new Date(nowMs - backdateMs),
      notAfter: new Date(nowMs + authorityLifeMs),
      publicKey,
      uri: undefined,
    },
    privateKey,
  );
  return { certificate, key: pkcs8Of(privateKey) };
}

/** Throws when `made` is not readable. */
export function openAuthority(
  made: MadeAuthority,
  options: { readonly nowMs: () => number; readonly lifeMs?: number },
): Authority {
  const { nowMs, lifeMs = nodeLifeMs } = options;
  const signingKey = createPrivateKey({ key: made.key, format: "der", type: "pkcs8" });
  const ca = new X509Certificate(made.certificate);
  const caPem = pem("CERTIFICATE", made.certificate);

  const issue = (name: string, publicKey: KeyObject, uri: string, { serial, notAfterMs }: IssuedTimes): Buffer =>
    signCertificate(
      {
        serial,
        subject: name,
        issuer: authorityName,
        notBefore: new Date(nowMs() - backdateMs),
        notAfter: new Date(notAfterMs),
        publicKey,
        uri,
      },
      signingKey,
    );

  const issueForProcess = (name: string, uri: string): OwnCertificate => {
    const { privateKey, publicKey } = newKey();
    const notAfterMs = nowMs() + ownLifeMs;
    const own = issue(name, publicKey, uri, { serial: newSerial(), notAfterMs });
    return {
      certChainPem: pem("CERTIFICATE", own) + caPem,
      keyPem: pem("PRIVATE KEY", pkcs8Of(privateKey)),
      caPem,
      notAfterMs,
    };
  };

  return {
    certificate: made.certificate,
    hash: createHash("sha256").update(made.certificate).digest("base64url"),
    readRequest(csr) {
      try {
        const publicKey = keyOfRequest(csr);
        return { publicKey, keyHash: sha256(spkiOf(publicKey)) };
      } catch {
        return undefined;
      }
    },
    // Rounded to seconds, as in certificates.
    times: () => ({ serial: newSerial(), notAfterMs: Math.floor((nowMs() + lifeMs) / 1000) * 1000 }),
    issueNode: (request, host, times) => issue(host, request.publicKey, hostUri(host), times),
    issueOwn: () => issueForProcess("Stoker control plane", ownName),
    issueGateway: (id) => issueForProcess("Stoker gateway", gatewayUri(id)),
    identify(der) {
      const refused = (why: string): NodeIdentity => ({ ok: false, why });
      try {
        const certificate = new X509Certificate(der);
        if (!certificate.checkIssued(ca) || !certificate.verify(ca.publicKey))
          return refused("the certificate is of another installation: join this one with its own token");
        const peer = peerOf({ subjectaltname: certificate.subjectAltName });
        if (peer?.kind !== "host") return refused("the certificate is not a host's");
        const notAfterMs = certificate.validToDate.getTime();
        if (notAfterMs <= nowMs())
          return refused(
            `the certificate expired at ${certificate.validToDate.toISOString()}: join again with a token`,
          );
        if (certificate.validFromDate.getTime() > nowMs()) return refused("the certificate is not valid yet");
        const keyHash = sha256(spkiOf(certificate.publicKey));
        return { ok: true, hostId: peer.id, keyHash, notAfterMs };
      } catch {
        return refused("the certificate is unreadable");
      }
    },
  };
}

const newKey = () => generateKeyPairSync("ec", { namedCurve: "P-256" });
const pkcs8Of = (key: KeyObject): Buffer => key.export({ type: "pkcs8", format: "der" });
const sha256 = (bytes: Buffer): Buffer => createHash("sha256").update(bytes).digest();

/** Positive and minimal, as DER requires: the first byte is never zero nor above 0x7f. */
function newSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString("hex");
}
