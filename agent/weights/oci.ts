// Weights as an artifact of a container registry: files as layers, in the layouts of ORAS, ModelPack, Ollama and Docker.
// Every byte is named by its digest. https://github.com/opencontainers/distribution-spec
import { createHash } from "node:crypto";
import { type ByteRange, rangeHeaders } from "./download.ts";
import type { NamedWeb } from "./named-web.ts";
import { isArchive, readLayers } from "./oci-layers.ts";
import { chooseFrom, type FoundFile, namedContent, pinnedContent, type Resolve } from "./repository.ts";
import type { SourceOfKind } from "./source.ts";
import type { WebAnswer } from "./web.ts";
import { WeightsError, type WeightsErrorCode } from "./weights-error.ts";

type OciSource = SourceOfKind<"oci">;

const manifestTypes = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");
const manifestBytes = 4 * 1024 * 1024;
const tokenBytes = 64 * 1024;

export function createResolveOci(web: NamedWeb): Resolve<OciSource> {
  return async (source, signal) => {
    const registry = createRegistry(web, source);
    const { digest, layers } = await registry.manifest(source.address.reference, signal);
    const all = readLayers(source.repo, layers);
    const plain = all.filter(({ mediaType }) => !isArchive(mediaType));
    if (plain.length < all.length && plain.length === 0)
      throw refusal(
        "weights_unsupported",
        `${source.repo} packs its files as tar archives, which are not read. Push them as single files, for example with oras push.`,
      );
    const { chosen, entry } = chooseFrom(source, plain);
    const files = chosen.map(
      ({ path, sha256, sizeBytes }): FoundFile => ({
        path,
        content: pinnedContent(source, chosen, namedContent(registry.origin, source.token, sha256, sizeBytes)),
        open: (range, inner) => registry.blob(sha256, range, inner),
      }),
    );
    return { commit: digest, files, entry };
  };
}

function createRegistry(web: NamedWeb, source: OciSource) {
  const { registry, name } = source.address;
  // The names of Docker's own registry differ from its host.
  const isDockerHub = registry === "docker.io" || registry === "index.docker.io";
  const origin = web.originOf(isDockerHub ? "registry-1.docker.io" : registry);
  const repository = isDockerHub && !name.includes("/") ? `library/${name}` : name;
  const basic = source.token === undefined ? undefined : basicOf(source.token);
  web.check(origin);
  let authorization: string | undefined;

  /** Sends again with what the registry asks for, once: tokens expire during long downloads. */
  async function ask(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<WebAnswer> {
    const url = new URL(`/v2/${repository}/${path}`, origin);
    for (let isSecond = false; ; isSecond = true) {
      const answer = await web.open(url, { method: "GET", headers, authorization, follows: true }, signal);
      if (answer.status < 300 || answer.status === 416) return answer;
      answer.body.on("error", () => {}).destroy();
      if (answer.status !== 401 || isSecond) throw refusalOf(answer.status, source);
      authorization = await authorizationFor(answer.header("www-authenticate") ?? "", signal);
    }
  }

  async function authorizationFor(challenge: string, signal: AbortSignal): Promise<string> {
    if (/^basic\b/i.test(challenge) && basic !== undefined) return basic;
    const [, realm] = /^bearer\b.*?\brealm="([^"]+)"/i.exec(challenge) ?? [];
    if (realm === undefined || !URL.canParse(realm)) throw refusalOf(401, source);
    const url = new URL(realm);
    const service = /\bservice="([^"]*)"/i.exec(challenge)?.[1];
    if (service !== undefined) url.searchParams.set("service", service);
    url.searchParams.set("scope", `repository:${repository}:pull`);
    // Only the operator's own registry may name other servers of the operator: the token in the reply is sent to the registry.
    const isPublic = !web.isTrusted(origin);
    const asked = { method: "GET", headers: {}, authorization: basic, follows: true, isPublic } as const;
    const answer = await web.open(url, asked, signal);
    if (answer.status >= 300) {
      answer.body.on("error", () => {}).destroy();
      throw refusalOf(answer.status === 400 ? 401 : answer.status, source);
    }
    const { token, access_token: other } = asRecord(await web.text(answer, tokenBytes));
    const found = token ?? other;
    if (typeof found !== "string" || !/^[\x21-\x7e]+$/.test(found)) throw refusalOf(401, source);
    return `Bearer ${found}`;
  }

  async function manifestOf(reference: string, signal: AbortSignal) {
    const answer = await ask(`manifests/${reference}`, { accept: manifestTypes }, signal);
    const text = await web.text(answer, manifestBytes);
    const digest = createHash("sha256").update(text).digest("hex");
    if (reference.startsWith("sha256:") && reference !== `sha256:${digest}`)
      throw refusal(
        "hub_checksum_mismatch",
        `${registry} sent another manifest than ${reference.slice(0, 19)}… for ${source.repo}.`,
      );
    return { digest, value: asRecord(text) };
  }

  return {
    origin,
    async manifest(reference: string, signal: AbortSignal) {
      const { digest, value } = await manifestOf(reference, signal);
      const inner = Array.isArray(value["manifests"]) ? value["manifests"] : undefined;
      if (!inner) return { digest, layers: value["layers"] };
      const only = (inner[0] as { digest?: unknown } | null)?.digest;
      if (inner.length !== 1 || typeof only !== "string" || !/^sha256:[0-9a-f]{64}$/.test(only))
        throw refusal(
          "weights_unsupported",
          `${source.repo} is an index of ${inner.length} artifacts. Name one of them by its digest: oci://${registry}/${name}@sha256:…`,
        );
      const one = await manifestOf(only, signal);
      return { digest: one.digest, layers: one.value["layers"] };
    },
    blob(sha256: string, range: ByteRange, signal: AbortSignal): Promise<WebAnswer> {
      // The digest names the bytes; tags of the stores behind a registry differ between replies.
      return ask(`blobs/sha256:${sha256}`, rangeHeaders({ ...range, tag: undefined }), signal);
    },
  };
}

/** `user:password`, or an access token. */
function basicOf(token: string): string {
  return `Basic ${Buffer.from(token.includes(":") ? token : `token:${token}`).toString("base64")}`;
}

function asRecord(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Handled below.
  }
  throw refusal(
    "hub_failed",
    "The registry's response is not a JSON object. Check that the address is one of a container registry.",
  );
}

function refusalOf(status: number, { repo, token, address }: OciSource): WeightsError {
  if (status === 401 || status === 403)
    return refusal(
      "source_denied",
      `${address.registry} does not permit to pull ${repo}${token === undefined ? " without credentials" : " with these credentials"}. Give a token of the form user:password that may pull it.`,
    );
  if (status === 404)
    return refusal(
      "hub_repo_not_found",
      `${address.registry} has no artifact ${repo}. Check the repository and the tag.`,
    );
  const isPassing = status >= 500 || status === 429;
  return new WeightsError(
    "hub_failed",
    `${address.registry} responded with ${status} for ${repo}.${isPassing ? " The download is retried automatically." : ""}`,
    { retryable: isPassing },
  );
}

const refusal = (code: WeightsErrorCode, text: string) => new WeightsError(code, text, { retryable: false });
