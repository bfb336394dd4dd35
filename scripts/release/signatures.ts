// Signatures and attestations of images in the form of cosign (https://github.com/sigstore/cosign/tree/main/specs), with an ECDSA P-256 key and
// without a transparency log: `cosign verify --key KEY --insecure-ignore-tlog IMAGE`.
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { type Descriptor, type Manifest, manifestType, type Repository } from "./registry.ts";

const payloadType = "application/vnd.dev.cosign.simplesigning.v1+json";
const envelopeType = "application/vnd.dsse.envelope.v1+json";
const statementType = "application/vnd.in-toto+json";
const signatureAnnotation = "dev.cosignproject.cosign/signature";

/** An in-toto statement (https://github.com/in-toto/attestation). */
export interface Statement {
  readonly _type: "https://in-toto.io/Statement/v1";
  readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
  readonly predicateType: string;
  readonly predicate: unknown;
}

interface Envelope {
  readonly payloadType: string;
  readonly payload: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

export class NotVerified extends Error {
  override readonly name = "NotVerified";
}

/** From PEM. Throws unless it is a P-256 key. */
export function readPrivateKey(pem: string): KeyObject {
  return requireP256(createPrivateKey(pem));
}

export function readPublicKey(pem: string): KeyObject {
  return requireP256(createPublicKey(pem));
}

function requireP256(key: KeyObject): KeyObject {
  if (key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1") return key;
  throw new Error(
    "The key must be an ECDSA P-256 key: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256.",
  );
}

const tagOf = (digest: string, kind: "sig" | "att"): string => `${digest.replace(":", "-")}.${kind}`;

/** Signs the image `digest` of the repository. */
export async function signImage(repository: Repository, digest: string, key: KeyObject): Promise<void> {
  const payload = Buffer.from(
    JSON.stringify({
      critical: {
        identity: { "docker-reference": repository.repository },
        image: { "docker-manifest-digest": digest },
        type: "cosign container image signature",
      },
      optional: null,
    }),
  );
  const annotations = { [signatureAnnotation]: sign("sha256", payload, key).toString("base64") };
  const layer = { ...(await repository.putBlob(payloadType, payload)), annotations };
  await putArtifact(repository, tagOf(digest, "sig"), [layer]);
}

/** Signature of a file: `cosign verify-blob --key KEY --signature SIGNATURE --insecure-ignore-tlog FILE`. */
export const signFile = (bytes: Uint8Array, key: KeyObject): string => sign("sha256", bytes, key).toString("base64");

/** Attaches statements, each in a signed envelope. */
export async function attest(
  repository: Repository,
  digest: string,
  statements: readonly Statement[],
  key: KeyObject,
): Promise<void> {
  const layers: Descriptor[] = [];
  for (const statement of statements) {
    const payload = Buffer.from(JSON.stringify(statement));
    const envelope: Envelope = {
      payloadType: statementType,
      payload: payload.toString("base64"),
      signatures: [{ keyid: "", sig: sign("sha256", authenticated(statementType, payload), key).toString("base64") }],
    };
    const annotations = { [signatureAnnotation]: "", predicateType: statement.predicateType };
    layers.push({ ...(await repository.putBlob(envelopeType, Buffer.from(JSON.stringify(envelope)))), annotations });
  }
  await putArtifact(repository, tagOf(digest, "att"), layers);
}

/** Throws NotVerified unless a signature of the key names this image. */
export async function verifyImage(repository: Repository, digest: string, key: KeyObject): Promise<void> {
  for (const layer of await layersOf(repository, tagOf(digest, "sig"))) {
    const payload = await repository.blob(layer.digest);
    const signature = Buffer.from(layer.annotations?.[signatureAnnotation] ?? "", "base64");
    const { critical } = JSON.parse(payload.toString()) as { critical?: { image?: Record<string, string> } };
    if (critical?.image?.["docker-manifest-digest"] === digest && verify("sha256", payload, key, signature)) return;
  }
  throw new NotVerified(`${repository.repository}@${digest} has no signature of this key.`);
}

/** Statements about this image whose envelopes the key signed. Throws NotVerified where another one signed. */
export async function statementsOf(
  repository: Repository,
  digest: string,
  key: KeyObject,
): Promise<readonly Statement[]> {
  const statements: Statement[] = [];
  for (const layer of await layersOf(repository, tagOf(digest, "att"))) {
    const envelope = JSON.parse((await repository.blob(layer.digest)).toString()) as Envelope;
    const payload = Buffer.from(envelope.payload, "base64");
    const signature = Buffer.from(envelope.signatures[0]?.sig ?? "", "base64");
    if (!verify("sha256", authenticated(envelope.payloadType, payload), key, signature))
      throw new NotVerified(`An attestation of ${repository.repository}@${digest} has no signature of this key.`);
    const statement = JSON.parse(payload.toString()) as Statement;
    if (statement.subject.some((subject) => `sha256:${subject.digest.sha256}` === digest)) statements.push(statement);
  }
  return statements;
}

/** What an envelope's signature covers (https://github.com/secure-systems-lab/dsse). */
function authenticated(type: string, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`DSSEv1 ${Buffer.byteLength(type)} ${type} ${payload.length} `), payload]);
}

async function layersOf(repository: Repository, tag: string): Promise<readonly Descriptor[]> {
  const found = await repository.manifest(tag);
  return found && "layers" in found.manifest ? found.manifest.layers : [];
}

async function putArtifact(repository: Repository, tag: string, layers: readonly Descriptor[]): Promise<void> {
  const config = Buffer.from(
    JSON.stringify({
      architecture: "",
      config: {},
      created: "0001-01-01T00:00:00Z",
      history: layers.map(() => ({ created: "0001-01-01T00:00:00Z" })),
      os: "",
      rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => digest) },
    }),
  );
  const manifest: Manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: await repository.putBlob("application/vnd.oci.image.config.v1+json", config),
    layers,
  };
  await repository.putManifest(tag, manifest);
}
