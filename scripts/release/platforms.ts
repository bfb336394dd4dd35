// One name for the images of several platforms: an index (https://github.com/opencontainers/image-spec/blob/main/image-index.md).
import type { Descriptor, Index, Repository } from "./registry.ts";

const dockerManifestType = "application/vnd.docker.distribution.manifest.v2+json";
const dockerIndexType = "application/vnd.docker.distribution.manifest.list.v2+json";
const indexType = "application/vnd.oci.image.index.v1+json";

/** Puts an index of images of the repository, each for the platform in its configuration, under a tag. Returns its digest. */
export async function putIndex(repository: Repository, tag: string, digests: readonly string[]): Promise<string> {
  const manifests = await Promise.all(digests.map((digest) => platformImage(repository, digest)));
  const isDocker = manifests.every(({ mediaType }) => mediaType === dockerManifestType);
  return repository.putManifest(tag, {
    schemaVersion: 2,
    mediaType: isDocker ? dockerIndexType : indexType,
    manifests,
  });
}

async function platformImage(repository: Repository, digest: string): Promise<Index["manifests"][number]> {
  const found = await repository.manifest(digest);
  if (!found || !("layers" in found.manifest)) throw new Error(`${repository.repository}@${digest} is no image.`);
  const { mediaType, config } = found.manifest;
  const { os, architecture } = JSON.parse((await repository.blob(config.digest)).toString()) as Record<string, string>;
  if (!os || !architecture) throw new Error(`${repository.repository}@${digest} names no platform.`);
  const descriptor: Descriptor = { mediaType, digest, size: found.size };
  return { ...descriptor, platform: { os, architecture } };
}
