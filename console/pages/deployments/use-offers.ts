import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import type { Offer } from "../../domain/deployment.ts";

/** GPU configurations of the hosts with prices; empty until they are loaded. */
export const useOffers = (everyMs?: number): readonly Offer[] =>
  useGet<Responses["GET /deploy/llm/gpu_availability"]>("/deploy/llm/gpu_availability", { everyMs }).data?.gpus ?? [];
