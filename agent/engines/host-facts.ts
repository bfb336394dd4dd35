import type { EngineVersion } from "../../proto/engine-version.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { GpuAccess, GpuVendor } from "../../proto/gpu-vendors.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { ForeignEngine } from "../../proto/model-engines.ts";
import type { ChatModel } from "../../proto/vllm-parsers.ts";
import type { ContainerPlan } from "../reconcile/driver.ts";

export interface HostFacts {
  readonly driver: "process" | "docker" | "kubernetes";
  readonly runtimeImage: string;
  /** Other images that the operator allows on this host; see allowed-image.ts. */
  readonly allowedImages: readonly string[];
  /** Images of engines from elsewhere; without one the host does not run that engine in containers. */
  readonly engineImages?: { readonly [Name in ForeignEngine]?: string | undefined };
  /** Images for GPUs of other makers than NVIDIA, also of our own runtime. */
  readonly vendorImages?: VendorImages;
  /** Ways to a GPU of this host, as of the last reading of its tool. */
  readonly gpuAccess?: (uuid: string) => GpuAccess | undefined;
  /** CDI devices that the container engine lists. */
  readonly cdiDevices?: () => ReadonlySet<string>;
  /** The same for the process driver: installed programs. */
  readonly enginePrograms?: { readonly [Name in ForeignEngine]?: EngineProgram | undefined };
  readonly filesDir: string;
  /** Folder of LoRA adapters as engines see them, one per instance in it; undefined: this host serves none. */
  readonly adaptersDir?: string;
  readonly logLevel: string;
  /** Folder of graphs that model servers optimised for this machine; undefined: none are kept. */
  readonly graphsDir?: string | undefined;
  /** Folder of persistent volumes; undefined: this host keeps none. */
  readonly volumesDir?: string | undefined;
  /** Settings of rentals; undefined: the host offers none. */
  readonly rentals?: {
    readonly images: ReadonlyMap<string, string>;
    /** `none` hands no GPU into a container: for tests on machines whose GPUs are not real. */
    readonly devices: "nvidia" | "none";
  };
}

export type VendorImages = {
  readonly [Vendor in GpuVendor]?: { readonly [Name in ForeignEngine | "stoker"]?: string | undefined };
};

/** Program of an engine that is installed on the host. */
export interface EngineProgram {
  readonly path: string;
  /** Undefined: unknown. */
  readonly version: EngineVersion | undefined;
}

/** File that the plan mounts or names; written before the start. */
export interface PlanFile {
  readonly path: string;
  readonly text: string;
}

/** Input of a plan besides its specification and the host. */
export interface PlanExtras {
  /** Weights of the draft model. */
  readonly draftPath?: string | undefined;
  /** Facts from the files of the weights; undefined: they are not here yet. */
  readonly model?: ModelFacts | undefined;
}

export interface ModelFacts extends ChatModel {
  /** Base of the rotary embedding; undefined: the files name none. */
  readonly ropeTheta?: number | undefined;
}

export type PlanOutcome =
  | {
      readonly ok: true;
      readonly plan: ContainerPlan;
      readonly files: readonly PlanFile[];
      /** Must be there before the start. */
      readonly folders?: readonly string[];
      /** As `folders`, for a server of any user to write into; their age says when they were last used. */
      readonly openFolders?: readonly string[];
    }
  /** Trying again cannot help. `message`: what happened, why, what to do. */
  | { readonly ok: false; readonly code: string; readonly message: string };

export const refused = (code: string, message: string): PlanOutcome => ({ ok: false, code, message });

export function identityOf(spec: InstanceSpec__Output) {
  return {
    instanceId: spec.instanceId as InstanceId,
    deployId: spec.deployId as DeploymentId,
    generation: Number(spec.generation),
  };
}
