// The part of the OCI distribution protocol that a release needs: blobs and manifests of one repository
// (https://github.com/opencontainers/distribution-spec).
import { createHash } from "node:crypto";

export const manifestType = "application/vnd.oci.image.manifest.v1+json";
const accepted = [
  manifestType,
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Manifest {
  readonly schemaVersion: 2;
  readonly mediaType: string;
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

/** Images of one name for several platforms. */
export interface Index {
  readonly schemaVersion: 2;
  readonly mediaType: string;
  readonly manifests: readonly (Descriptor & {
    readonly platform: { readonly os: string; readonly architecture: string };
  })[];
}

interface Found {
  readonly digest: string;
  readonly size: number;
  readonly manifest: Manifest | Index;
}

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

export const digestOf = (bytes: Uint8Array): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

/** `repository`: HOST[:PORT]/PATH. Registries on loopback are asked over HTTP, as by Docker. */
export function openRepository(repository: string, credentials?: Credentials) {
  const slash = repository.indexOf("/");
  if (slash < 1) throw new Error(`${repository} must be HOST/NAME.`);
  const [host, name] = [repository.slice(0, slash), repository.slice(slash + 1)];
  const isLoopback = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/.test(host);
  const base = `${isLoopback ? "http" : "https"}://${host}/v2/${name}`;
  let authorization: string | undefined;

  async function send(method: string, url: string, init: { headers?: Record<string, string>; body?: Uint8Array } = {}) {
    const attempt = () =>
      fetch(new URL(url, base), {
        method,
        headers: { ...init.headers, ...(authorization === undefined ? {} : { authorization }) },
        ...(init.body === undefined ? {} : { body: Buffer.from(init.body) }),
        signal: AbortSignal.timeout(120_000),
      });
    const first = await attempt();
    if (first.status !== 401) return first;
    authorization = await authorize(first.headers.get("www-authenticate") ?? "", credentials);
    return attempt();
  }

  async function expectStatus(response: Response, statuses: readonly number[], what: string): Promise<Response> {
    if (statuses.includes(response.status)) return response;
    throw new Error(
      `${host}: ${what} of ${name} failed with status ${response.status}: ${(await response.text()).slice(0, 500)}`,
    );
  }

  return {
    repository,
    /** Undefined where the registry does not have it. */
    async manifest(reference: string): Promise<Found | undefined> {
      const response = await send("GET", `${base}/manifests/${reference}`, { headers: { accept: accepted } });
      if (response.status === 404) return undefined;
      const bytes = Buffer.from(await (await expectStatus(response, [200], "reading a manifest")).arrayBuffer());
      return { digest: digestOf(bytes), size: bytes.length, manifest: JSON.parse(bytes.toString()) };
    },
    async blob(digest: string): Promise<Buffer> {
      const response = await expectStatus(await send("GET", `${base}/blobs/${digest}`), [200], "reading a blob");
      const bytes = Buffer.from(await response.arrayBuffer());
      if (digestOf(bytes) !== digest) throw new Error(`${host} sent another blob than ${digest}.`);
      return bytes;
    },
    async putBlob(mediaType: string, bytes: Uint8Array): Promise<Descriptor> {
      const digest = digestOf(bytes);
      const known = await send("HEAD", `${base}/blobs/${digest}`);
      if (known.status !== 200) {
        const begun = await expectStatus(await send("POST", `${base}/blobs/uploads/`), [202], "an upload");
        const place = new URL(begun.headers.get("location") ?? "", base);
        place.searchParams.set("digest", digest);
        const headers = { "content-type": "application/octet-stream" };
        await expectStatus(await send("PUT", place.href, { headers, body: bytes }), [201], "an upload");
      }
      return { mediaType, digest, size: bytes.length };
    },
    /** Returns its digest. */
    async putManifest(tag: string, manifest: Manifest | Index): Promise<string> {
      const body = Buffer.from(JSON.stringify(manifest));
      const headers = { "content-type": manifest.mediaType };
      await expectStatus(await send("PUT", `${base}/manifests/${tag}`, { headers, body }), [201], "writing a manifest");
      return digestOf(body);
    },
  };
}

export type Repository = ReturnType<typeof openRepository>;

/** Answers the challenge of a registry: basic, or a token of its token server. */
async function authorize(challenge: string, credentials: Credentials | undefined): Promise<string> {
  const basic = credentials && `Basic ${Buffer.from(`${credentials.user}:${credentials.password}`).toString("base64")}`;
  if (/^basic/i.test(challenge)) {
    if (!basic) throw new Error("The registry requires a user: set STOKER_REGISTRY_USER and STOKER_REGISTRY_PASSWORD.");
    return basic;
  }
  const fields = Object.fromEntries(
    [...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = "", value = ""]) => [key, value] as const),
  );
  const { realm, service, scope } = fields;
  if (realm === undefined) throw new Error(`The registry asks for an unknown kind of sign-in: ${challenge}`);
  const url = new URL(realm);
  if (service !== undefined) url.searchParams.set("service", service);
  if (scope !== undefined) url.searchParams.set("scope", scope);
  const response = await fetch(url, {
    headers: basic ? { authorization: basic } : {},
    signal: AbortSignal.timeout(30_000),
  });
  if (!response.ok) throw new Error(`${url.host} refused the sign-in with status ${response.status}.`);
  const { token, access_token } = (await response.json()) as {
    readonly token?: string;
    readonly access_token?: string;
  };
  return `Bearer ${token ?? access_token}`;
}
