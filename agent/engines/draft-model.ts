// Draft model of an instance: the weights that it needs and the arguments for its server. Pure.
import { basename } from "node:path";
import { draftModelOf } from "../../proto/engine-args.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { Weights__Output } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import type { ContainerPlan } from "../reconcile/driver.ts";

/** Undefined for an instance without one. It is read with the deployment's own token. */
export function draftWeights(
  spec: Pick<InstanceSpec__Output, "engine" | "extraArgs" | "weights">,
): Weights__Output | undefined {
  const draft = spec.engine === "stoker" ? draftModelOf(spec.extraArgs) : undefined;
  if (!draft) return undefined;
  return {
    repo: draft.repo,
    file: draft.file ?? "",
    revision: "main",
    token: spec.weights?.token ?? "",
    format: "gguf",
    sha256: "",
    sizeBytes: "0",
    localPath: "",
    pypiPackage: "",
    pypiVersion: "",
    pypiPath: "",
    url: "",
  };
}

interface DraftPlan {
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: ContainerPlan["mounts"];
}

/** `path`: where the weights lie on this host. */
export function planDraft(path: string | undefined, isProcess: boolean): DraftPlan {
  if (path === undefined) return { env: {}, mounts: [] };
  if (isProcess) return { env: { STOKER_DRAFT_MODEL_PATH: path }, mounts: [] };
  // Beside the model's own, which may have the same name.
  const target = `/draft/${basename(path)}`;
  return { env: { STOKER_DRAFT_MODEL_PATH: target }, mounts: [{ source: path, target, readOnly: true }] };
}
