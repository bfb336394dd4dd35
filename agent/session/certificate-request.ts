// The host's key and its certificate request. The key is created here and never sent.
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { Attributes, CertificationRequest, CertificationRequestInfo } from "@peculiar/asn1-csr";
import { AsnConvert } from "@peculiar/asn1-schema";
import { AlgorithmIdentifier, Name, SubjectPublicKeyInfo } from "@peculiar/asn1-x509";

const ecdsaWithSha256 = "1.2.840.10045.4.3.2";

/** P-256; PKCS#8, PEM. */
export function makeKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** PKCS#10, DER, signed by the key. It contains no name: the certificate states the host. */
export function certificateRequest(keyPem: string): Buffer {
  const key = createPrivateKey(keyPem);
  const info = new CertificationRequestInfo({
    subject: new Name(),
    subjectPKInfo: AsnConvert.parse(createPublicKey(key).export({ type: "spki", format: "der" }), SubjectPublicKeyInfo),
    attributes: new Attributes(),
  });
  const request = new CertificationRequest({
    certificationRequestInfo: info,
    signatureAlgorithm: new AlgorithmIdentifier({ algorithm: ecdsaWithSha256 }),
    signature: Uint8Array.from(sign("sha256", Buffer.from(AsnConvert.serialize(info)), key)).buffer,
  });
  return Buffer.from(AsnConvert.serialize(request));
}
