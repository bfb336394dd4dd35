// Address of weights, as a deployment names them: a hub repository (`owner/name`), or an address with a scheme. Pure.
//
//   s3://bucket/prefix[?region=…&endpoint=https://…]      objects below a prefix, or one object
//   oci://registry/repository:tag  or  @sha256:…           artifact of a container registry
//   modelscope://owner/name                                repository of ModelScope

export type WeightsAddress =
  | { readonly kind: "hub"; readonly repo: string }
  | {
      readonly kind: "s3";
      readonly bucket: string;
      /** Without a slash at either end; empty: the whole bucket. */
      readonly prefix: string;
      readonly region: string | undefined;
      /** Origin of an S3-compatible store; undefined: the host's default. */
      readonly endpoint: string | undefined;
    }
  | {
      readonly kind: "oci";
      /** `host` or `host:port`. */
      readonly registry: string;
      readonly name: string;
      /** A tag, or `sha256:` with 64 hexadecimal digits. */
      readonly reference: string;
    }
  | { readonly kind: "modelscope"; readonly repo: string };

const repoForm = /^[A-Za-z0-9][\w.-]{0,95}\/[\w.-]{1,96}$/;
const bucketForm = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** Clients request credentials of a session for these first. */
const directoryBucketForm = /--xa?-s3$/;
const prefixForm = /^[\w.][\w. +@/=,()-]{0,511}$/;
const regionForm = /^[a-z0-9-]{1,32}$/;
const registryForm = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:\d{1,5})?$/i;
const nameForm = /^[a-z0-9]+([._-]+[a-z0-9]+)*(\/[a-z0-9]+([._-]+[a-z0-9]+)*)*$/;
const referenceForm = /^(sha256:[0-9a-f]{64}|[\w][\w.-]{0,127})$/;
const maxCharacters = 512;

/** Returns the address, or the reason why it is none. Everything in it is safe in a URL path. */
export function readWeightsAddress(text: string): WeightsAddress | { readonly kind: "invalid"; readonly why: string } {
  if (text.length > maxCharacters) return invalid(`it must have at most ${maxCharacters} characters`);
  const [, scheme, rest = ""] = /^([a-z0-9]+):\/\/(.*)$/.exec(text) ?? [];
  switch (scheme) {
    case undefined:
      return isHubRepo(text)
        ? { kind: "hub", repo: text }
        : invalid("it must have the form owner/name, with letters, digits, dots, dashes and underscores");
    case "s3":
      return s3Address(rest);
    case "oci":
      return ociAddress(rest);
    case "modelscope":
      return isHubRepo(rest)
        ? { kind: "modelscope", repo: rest }
        : invalid("it must have the form modelscope://owner/name");
    default:
      return invalid("it must be owner/name of a hub, or begin with s3://, oci:// or modelscope://");
  }
}

/** True for the name of a hub repository, which may be part of a URL. */
export const isHubRepo = (text: string): boolean => repoForm.test(text) && !text.includes("..");

/** Revision of an address without one of its own; undefined: addresses of this kind have none. */
export const defaultRevisions: Readonly<Record<WeightsAddress["kind"], string | undefined>> = {
  hub: "main",
  modelscope: "master",
  s3: undefined,
  oci: undefined,
};

function s3Address(rest: string) {
  const [place = "", query = "", ...others] = rest.split("?");
  const [bucket = "", ...keys] = place.split("/");
  const prefix = keys.join("/").replace(/^\/+|\/+$/g, "");
  const parameters = new URLSearchParams(query);
  const region = parameters.get("region") ?? undefined;
  const endpoint = parameters.get("endpoint") ?? undefined;
  const unknown = [...parameters.keys()].find((key) => key !== "region" && key !== "endpoint");
  if (others.length > 0 || !bucketForm.test(bucket) || bucket.includes(".."))
    return invalid("it must have the form s3://bucket/prefix");
  if (directoryBucketForm.test(bucket)) return invalid("its bucket must not be a directory bucket (--x-s3)");
  if (prefix !== "" && (!prefixForm.test(prefix) || prefix.split("/").some(isNoName)))
    return invalid("its prefix has a part or a character that is not supported");
  if (unknown !== undefined) return invalid("it may have the parameters region and endpoint only");
  if (region !== undefined && !regionForm.test(region)) return invalid("its region must be one such as eu-west-1");
  const origin = endpoint === undefined ? undefined : originOf(endpoint);
  if (endpoint !== undefined && origin === undefined)
    return invalid("its endpoint must be an origin such as https://s3.example.com");
  return { kind: "s3", bucket, prefix, region, endpoint: origin } as const;
}

function ociAddress(rest: string) {
  const form = "it must have the form oci://registry/repository:tag, or @sha256: with a digest in place of the tag";
  const at = rest.indexOf("/");
  const registry = rest.slice(0, Math.max(0, at));
  const [, name = "", tag, digest] = /^([^:@]+)(?::([^@]+))?(?:@(.+))?$/.exec(rest.slice(at + 1)) ?? [];
  const reference = digest ?? tag ?? "latest";
  if (at < 1 || !registryForm.test(registry) || name.length > 255 || !nameForm.test(name)) return invalid(form);
  if (!referenceForm.test(reference) || (digest !== undefined && !digest.startsWith("sha256:"))) return invalid(form);
  return { kind: "oci", registry, name, reference } as const;
}

const isNoName = (part: string): boolean => part === "" || part === "." || part === "..";

function originOf(text: string): string | undefined {
  const url = URL.parse(text);
  const isPlain = url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash;
  return isPlain && url.pathname === "/" ? url.origin : undefined;
}

const invalid = (why: string) => ({ kind: "invalid", why }) as const;
