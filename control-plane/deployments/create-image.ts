// POST /v1/deploy with provider `cnt`: a container image that serves the OpenAI paths itself. Each host's operator decides
// which images may run; the host reports a refusal.
import type { GpuType } from "../../proto/gpu.ts";
import { randomId } from "../../proto/ids.ts";
import { requireGpus } from "../quotas/gpu-limits.ts";
import type { CreateDeps, Owner } from "./create.ts";
import { fullName, versionOf } from "./create.ts";
import { requireFunds } from "./dedicated-money.ts";
import type { Deployment } from "./deployment.ts";
import { accountEnded, deploymentNameTaken, deploymentRefused, refuseSuspended } from "./errors.ts";

export interface ImageRequest {
  /** The image's repository, without tag or digest. */
  readonly image: string;
  /** A tag, or `sha256:...`; undefined: no suffix. */
  readonly version: string | undefined;
  readonly gpu: GpuType;
  readonly numGpus: number;
  readonly maxBatchSize: number;
}

const imageForm = /^[a-z0-9][\w./:-]{0,254}$/;
const versionForm = /^(sha256:[0-9a-f]{64}|[\w][\w.-]{0,127})$/;

/** Returns the record, `initializing`. Throws the errors of errors.ts, and GpuLimitReached. */
export async function createFromImage(deps: CreateDeps, owner: Owner, request: ImageRequest): Promise<Deployment> {
  refuseSuspended(owner);
  const { image, version, gpu, numGpus, maxBatchSize } = request;
  if (!imageForm.test(image) || image.includes(".."))
    throw deploymentRefused("model_name: an image must have the form registry.example/owner/name, in lower case.", {
      param: "model_name",
    });
  if (version !== undefined && !versionForm.test(version))
    throw deploymentRefused("version must be a tag, or sha256: with the 64 digits of a digest.", { param: "version" });
  const scale = { gpu, numGpus, minInstances: 1, maxInstances: 1 };
  const modelName = fullName(image.split("/").slice(-2).join("/").replaceAll(":", "-"), owner.displayName);
  await requireFunds(deps, owner.account, { ...scale, modelName });
  const reference = version === undefined ? image : `${image}${version.startsWith("sha256:") ? "@" : ":"}${version}`;
  const created = await deps.store.insert(
    {
      ...scale,
      id: randomId<"deployment">(16),
      account: owner.account,
      kind: "model",
      modelName,
      version: versionOf({ repo: image, revision: version ?? "latest" }),
      task: "custom",
      type: "legacy",
      engine: "custom",
      maxBatchSize,
      weights: { repo: "", revision: "" },
      weightsToken: null,
      extraArgs: [],
      image: reference,
      externalUrl: null,
      contextLength: 0,
      memoryBytes: 0,
    },
    (use) => requireGpus(use, gpu, numGpus, deps.gpuDefaults),
  );
  if (created === "account_gone") throw accountEnded();
  if (created === "name_taken") throw deploymentNameTaken(modelName);
  return created;
}
