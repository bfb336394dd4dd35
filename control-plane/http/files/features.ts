import type { Voices } from "../../assets/voices.ts";
import type { Batches } from "../../batches/batches.ts";
import type { RunLine } from "../../batches/line.ts";
import type { Files } from "../../files/files.ts";
import type { Webhooks } from "../../webhooks/webhooks.ts";

export interface FileFeatures {
  readonly files: Omit<Files, "write" | "sweep">;
  readonly batches: Batches & {
    /** Sets the function that runs lines. */
    runWith(run: RunLine): void;
  };
  readonly voices: Voices;
  /** Model for requests without one; undefined: any served one. */
  readonly speechModel: string | undefined;
  readonly webhooks: Webhooks;
  readonly publicUrl: string | undefined;
}
