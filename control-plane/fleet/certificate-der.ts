// X.509 and PKCS#10 encoding: certificates that our authority signs, and requests of hosts. ECDSA over P-256 with SHA-256
// only.
import { createPublicKey, type KeyObject, sign, verify } from "node:crypto";
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

export interface CertificateFacts {
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
export function keyOfRequest(csr: Uint8Array): KeyObject {
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

export const spkiOf = (key: KeyObject): Buffer => key.export({ type: "spki", format: "der" });

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
