// What is known of a LoRA adapter: a small change to a base model that its running instances take and drop without a restart.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { Engine } from "./deployment.ts";

export type AdapterStatus = "initializing" | "downloading" | "deploying" | "deployed" | "failed" | "deleted";

/** Where an adapter comes from. Only language models' adapters need a repository: theirs are two files. */
export type AdapterOrigin =
  | {
      readonly kind: "huggingface";
      readonly repo: string;
      readonly revision: string | undefined;
      /** Undefined: by the usual names. */
      readonly file: string | undefined;
    }
  | { readonly kind: "civitai" | "url"; readonly url: string };

export interface Adapter {
  readonly id: AdapterId;
  readonly account: AccountId;
  /** `owner/name`, as requests name it. */
  readonly name: string;
  readonly baseDeployId: DeploymentId;
  /** As it was named when the adapter was made. */
  readonly baseModel: string;
  readonly source: AdapterOrigin["kind"];
  /** Of the hub; of another source its URL without what may be a secret. */
  readonly repo: string;
  readonly revision: string;
  readonly file: string;
  /** What is loaded: the repository's commit, or the file's sha256; empty until it is known. */
  readonly commit: string;
  readonly hasToken: boolean;
  /** Kept for its owner: adapters serve their own account alone. */
  readonly isPrivate: boolean;
  readonly description: string;
  /** deployed: some instance has held it. */
  readonly status: AdapterStatus;
  /** `code: what happened, why, what to do`; also what is tried again. Empty while nothing is wrong. */
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

/** What a host says of an adapter at one instance. */
export interface AdapterNews {
  readonly id: AdapterId;
  readonly phase: "downloading" | "loading" | "ready" | "failed";
  /** Empty unless it failed. */
  readonly failCode: string;
  readonly failMessage: string;
  /** Trying again cannot help. */
  readonly isFinal: boolean;
  /** Of what is loaded; empty where the host does not know. */
  readonly commit: string;
}

export const imageTask = "text-to-image";
/** Tasks whose engines take adapters while they run. */
export const adaptedTasks: ReadonlySet<string> = new Set(["text-generation", imageTask]);

/** A picture model's are whole copies of its UNet, a language model's a few of its layers. */
const mostImages = 2;
const mostTexts: Readonly<Partial<Record<Engine, number>>> = { stoker: 4, vllm: 8 };

/** How many an instance holds at once; none of an engine that takes none while it runs. */
export function mostHeld(engine: string, task: string): number {
  if (task === imageTask) return engine === "stoker" ? mostImages : 0;
  return (mostTexts as Readonly<Record<string, number>>)[engine] ?? 0;
}

/** One that is made is loaded before anybody asks for it while its base holds fewer. */
export const roomOf = (task: string): number =>
  task === imageTask ? mostImages : Math.min(...Object.values(mostTexts));
