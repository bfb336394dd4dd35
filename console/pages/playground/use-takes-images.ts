import type { ModelSummary } from "../../domain/models.ts";
import { useCapabilities } from "../models/use-capabilities.ts";

/** The model accepts images in messages. */
export function useTakesImages(model: ModelSummary): boolean {
  return useCapabilities()(model).images === true;
}
