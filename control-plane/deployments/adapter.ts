// A LoRA adapter: a small change to a base model that running instances load and unload without a restart.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { Engine } from "./deployment.ts";

export type AdapterStatus = "initializing" | "downloading" | "deploying" | "deployed" | "failed" | "deleted";

/** Source of an adapter. Only language models' adapters need a repository, because they are two files. */
export type AdapterOrigin =
  | {
      readonly kind: "huggingface";
      readonly repo: string;
      readonly revision: string | undefined;
      /** Undefined: the usual file names. */
      readonly file: string | undefined;
    }
  | { readonly kind: "civitai" | "url"; readonly url: string };

export interface Adapter {
  readonly id: AdapterId;
  readonly account: AccountId;
  /** `owner/name`, as in requests. */
  readonly name: string;
  readonly baseDeployId: DeploymentId;
  /** Base model's name at creation. */
  readonly baseModel: string;
  readonly source: AdapterOrigin["kind"];
  /** Repository of the hub; for another source its URL without secrets. */
  readonly repo: string;
  readonly revision: string;
  readonly file: string;
  /** Loaded version: the repository's commit, or the file's sha256; empty while unknown. */
  readonly commit: string;
  readonly hasToken: boolean;
  /** Visible to its owner only: adapters serve only their own account. */
  readonly isPrivate: boolean;
  readonly description: string;
  /** deployed: an instance has loaded it. */
  readonly status: AdapterStatus;
  /** `code: what happened, why, what to do`; also while retrying. Empty when there is no error. */
  readonly failReason: string;
  /** Instances of the base that serve it now. */
  readonly held: number;
  readonly base: {
    readonly task: string;
    readonly engine: Engine;
    readonly gpu: GpuType;
    readonly numGpus: number;
    readonly maxBatchSize: number;
  };
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** A host's report of an adapter at one instance. */
export interface AdapterNews {
  readonly id: AdapterId;
  readonly phase: "downloading" | "loading" | "ready" | "failed";
  /** Empty unless it failed. */
  readonly failCode: string;
  readonly failMessage: string;
  /** A retry cannot succeed. */
  readonly isFinal: boolean;
  /** Commit of the loaded adapter; empty when the host does not know it. */
  readonly commit: string;
}

export const imageTask = "text-to-image";
/** Tasks whose engines load adapters at run time. */
export const adaptedTasks: ReadonlySet<string> = new Set(["text-generation", imageTask]);

/** A picture model's adapters are copies of its UNet, a language model's a few layers. */
const maxImages = 2;
const maxTexts: Readonly<Partial<Record<Engine, number>>> = { stoker: 4, vllm: 8 };

/** Maximum adapters an instance holds at once; 0 for an engine that cannot load adapters at run time. */
export function maxHeld(engine: string, task: string): number {
  if (task === imageTask) return engine === "stoker" ? maxImages : 0;
  return (maxTexts as Readonly<Record<string, number>>)[engine] ?? 0;
}

/** A new adapter is loaded in advance while its base holds fewer than this. */
export const preloadLimit = (task: string): number =>
  task === imageTask ? maxImages : Math.min(...Object.values(maxTexts));
