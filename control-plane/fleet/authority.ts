// Certificate authority of the installation. It signs three kinds of certificates, distinguished by their SAN:
// `spiffe://stoker/node/<id>`, `spiffe://stoker/control-plane` (the server agents connect to) and
// `spiffe://stoker/gateway/<id>` (the client of their data paths).
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
  X509Certificate,
} from "node:crypto";
import { CertificationRequest } from "@peculiar/asn1-csr";
import { AsnConvert, OctetString } from "@peculiar/asn1-schema";
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  BasicConstraints,
  Certificate,
  ExtendedKeyUsage,
  Extension,
  Extensions,
  GeneralName,
  id_ce_basicConstraints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_ce_subjectAltName,
  id_kp_clientAuth,
  id_kp_serverAuth,
  KeyUsage,
  KeyUsageFlags,
  Name,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
  Version,
} from "@peculiar/asn1-x509";
import type { HostId } from "../../proto/ids.ts";
import { gatewayUri, hostUri, peerOf } from "../../proto/peer-tls.ts";

interface MadeAuthority {
  /** X.509, DER. */
  readonly certificate: Buffer;
  /** PKCS#8, DER. */
  readonly key: Buffer;
}

interface NodeRequest {
  readonly publicKey: KeyObject;
  /** SHA-256 of the public key (SPKI). */
  readonly keyHash: Buffer;
}

interface IssuedTimes {
  /** Hex. */
  readonly serial: string;
  readonly notAfterMs: number;
}

type NodeIdentity =
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
  readonly notAfterMs: number;
  /** Life of hosts' certificates. */
  readonly lifeMs: number;
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
    notAfterMs: ca.validToDate.getTime(),
    lifeMs,
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

interface CertificateFacts {
  /** Hex; its first byte is neither zero nor above 0x7f. */
  readonly serial: string;
  readonly subject: string;
  readonly issuer: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly publicKey: KeyObject;
  /** SAN of a leaf; undefined: the authority itself. */
  readonly uri: string | undefined;
}

const ecdsaWithSha256 = "1.2.840.10045.4.3.2";
const commonName = "2.5.4.3";

/** DER. */
export function signCertificate(facts: CertificateFacts, signingKey: KeyObject): Buffer {
  const algorithm = new AlgorithmIdentifier({ algorithm: ecdsaWithSha256 });
  const body = new TBSCertificate({
    version: Version.v3,
    serialNumber: arrayBufferOf(Buffer.from(facts.serial, "hex")),
    signature: algorithm,
    issuer: nameOf(facts.issuer),
    validity: new Validity({ notBefore: facts.notBefore, notAfter: facts.notAfter }),
    subject: nameOf(facts.subject),
    subjectPublicKeyInfo: AsnConvert.parse(spkiOf(facts.publicKey), SubjectPublicKeyInfo),
    extensions: new Extensions(facts.uri === undefined ? ofAuthority() : ofLeaf(facts.uri)),
  });
  const signature = sign("sha256", Buffer.from(AsnConvert.serialize(body)), signingKey);
  const certificate = new Certificate({
    tbsCertificate: body,
    signatureAlgorithm: algorithm,
    signatureValue: arrayBufferOf(signature),
  });
  return Buffer.from(AsnConvert.serialize(certificate));
}

/** Returns the key of a self-signed PKCS#10. Throws for invalid requests and other kinds of keys. */
function keyOfRequest(csr: Uint8Array): KeyObject {
  const request = AsnConvert.parse(arrayBufferOf(csr), CertificationRequest);
  const spki = Buffer.from(AsnConvert.serialize(request.certificationRequestInfo.subjectPKInfo));
  const key = createPublicKey({ key: spki, format: "der", type: "spki" });
  if (key.asymmetricKeyType !== "ec" || key.asymmetricKeyDetails?.namedCurve !== "prime256v1")
    throw new Error("the key is not of P-256");
  const signed = request.certificationRequestInfoRaw ?? AsnConvert.serialize(request.certificationRequestInfo);
  if (!verify("sha256", Buffer.from(signed), key, Buffer.from(request.signature)))
    throw new Error("the request is not signed by its key");
  return key;
}

const spkiOf = (key: KeyObject): Buffer => key.export({ type: "spki", format: "der" });

export function pem(label: "CERTIFICATE" | "PRIVATE KEY", der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}

const ofAuthority = () => [
  extension(id_ce_basicConstraints, new BasicConstraints({ cA: true, pathLenConstraint: 0 }), true),
  extension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign), true),
];

/** Both usages: hosts are clients of their session and servers of their data path; control planes the reverse. */
const ofLeaf = (uri: string) => [
  extension(id_ce_basicConstraints, new BasicConstraints({ cA: false }), true),
  extension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.digitalSignature), true),
  extension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_clientAuth, id_kp_serverAuth]), false),
  extension(
    id_ce_subjectAltName,
    new SubjectAlternativeName([new GeneralName({ uniformResourceIdentifier: uri })]),
    false,
  ),
];

const extension = (extnID: string, value: object, critical: boolean): Extension =>
  new Extension({ extnID, critical, extnValue: new OctetString(AsnConvert.serialize(value)) });

const nameOf = (text: string): Name =>
  new Name([
    new RelativeDistinguishedName([
      new AttributeTypeAndValue({ type: commonName, value: new AttributeValue({ utf8String: text }) }),
    ]),
  ]);

const arrayBufferOf = (bytes: Uint8Array): ArrayBuffer => Uint8Array.from(bytes).buffer;
