import type { Spine } from "../../inference/complete.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { addBatchRoutes } from "./batches-routes.ts";
import type { FileFeatures } from "./features.ts";
import { addFileRoutes } from "./files-routes.ts";
import { addMessageBatchRoutes } from "./message-batches-routes.ts";
import { addVoiceRoutes } from "./voices-routes.ts";
import { addWebhookRoutes } from "./webhooks-routes.ts";

export function addFiles(endpoints: Endpoints, spine: Spine, features: FileFeatures): void {
  addFileRoutes(endpoints, features);
  addBatchRoutes(endpoints, features);
  addMessageBatchRoutes(endpoints, spine, features);
  addVoiceRoutes(endpoints, spine, features);
  addWebhookRoutes(endpoints, features);
}
