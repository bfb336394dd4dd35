import type { ReasoningSeals } from "../../accounts/reasoning-seals.ts";
import type { Voices } from "../../assets/voices.ts";
import type { ByteBudget } from "../../inference/byte-budget.ts";
import type { Responses } from "../../responses/responses.ts";
import type { RunResponse } from "../../responses/run-responses.ts";
import type { RequestTally } from "../../series/request-tally.ts";
import type { ResumableStreams } from "../../streams/resumable-streams.ts";
import type { Webhooks } from "../../webhooks/webhooks.ts";
import type { OnceDeps } from "./idempotency.ts";

export interface InferenceFeatures extends OnceDeps {
  readonly voices: Voices;
  readonly speechModel: string | undefined;
  /** Model for moderation requests without one. */
  readonly moderationModel: string | undefined;
  readonly webhooks: Webhooks;
  readonly reasoning: ReasoningSeals;
  readonly responses: Responses & {
    /** Sets the function that runs responses in the background. */
    runWith(run: RunResponse): void;
  };
  /** Memory budget for the bodies of all requests. */
  readonly bodies: ByteBudget;
  readonly tally: Pick<RequestTally, "note">;
  readonly streams: ResumableStreams;
  readonly publicUrl: string | undefined;
}
