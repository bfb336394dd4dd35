// Names of the files in the layers of an artifact. Pure.
import { isFileSize, isPlainPath } from "./source.ts";
import { WeightsError } from "./weights-error.ts";

export interface OciFile {
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly mediaType: string;
}

/** In order of precedence: ModelPack's annotation, then that of ORAS. */
const nameAnnotations = ["org.cncf.model.filepath", "org.opencontainers.image.title"];
/** A model in one layer without a name: Ollama's, and Docker's, which may have several parts. */
const modelTypes = /^application\/vnd\.(ollama\.image\.model|docker\.ai\.gguf\.v3)$/;
const maxLayers = 10_000;

/** True for a layer whose files are inside an archive. */
export const isArchive = (mediaType: string): boolean => /[.+]tar(\+(gzip|zstd))?$/.test(mediaType);

/** Returns the files with a usable name; other layers (licences, templates, projectors) are left out. */
export function readLayers(repo: string, layers: unknown): readonly OciFile[] {
  if (!Array.isArray(layers)) throw unsupported(`${repo} is not an artifact with layers.`);
  if (layers.length > maxLayers) throw unsupported(`${repo} has more than ${maxLayers} layers.`);
  if (!layers.every((layer) => typeof layer === "object" && layer !== null))
    throw unsupported(`${repo} has a layer that is not an object. Push the artifact again.`);
  const modelCount = layers.filter(({ mediaType }) => modelTypes.test(String(mediaType))).length;
  let models = 0;
  const seen = new Set<string>();
  return layers.flatMap((layer): readonly OciFile[] => {
    const { mediaType, digest, size, annotations } = layer as Record<string, unknown>;
    const modelIndex = modelTypes.test(String(mediaType)) ? models++ : models;
    const [, sha256] = /^sha256:([0-9a-f]{64})$/.exec(String(digest)) ?? [];
    if (typeof mediaType !== "string" || sha256 === undefined || !isFileSize(size)) return [];
    const named = annotations as Readonly<Record<string, unknown>> | undefined;
    const isFolder = named?.["io.deis.oras.content.unpack"] === "true";
    const name = nameAnnotations.map((key) => named?.[key]).find((value) => typeof value === "string");
    const type = isFolder ? `${mediaType}.tar+gzip` : mediaType;
    const partPath = modelTypes.test(type) ? partName(modelIndex, modelCount) : undefined;
    const path = isArchive(type) ? `archives/${sha256}` : (name ?? partPath);
    // The first of several layers with one name counts.
    if (typeof path !== "string" || !isPlainPath(path) || seen.has(path)) return [];
    seen.add(path);
    return [{ path, sha256, sizeBytes: size, mediaType: type }];
  });
}

/** As split models are named, so that the engine finds the other parts. */
function partName(index: number, count: number): string {
  const number = (value: number) => `${value}`.padStart(5, "0");
  return count === 1 ? "model.gguf" : `model-${number(index + 1)}-of-${number(count)}.gguf`;
}

const unsupported = (text: string) => new WeightsError("weights_unsupported", text, { retryable: false });
