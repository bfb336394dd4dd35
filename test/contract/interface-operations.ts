// Every operation of the published interface with the statuses it names, in the interface's own order. Copied from its
// index and its sections, so that a path or a status nobody built fails by name.

export interface InterfaceOperation {
  readonly method: string;
  /** As the interface writes it. */
  readonly path: string;
  readonly statuses: readonly number[];
}

/** Method, path, and the statuses beside 401 (`-`: asks for no key). */
const index = `
GET /v1/metrics/live - 200
GET /cli/version - 200 422
GET /v1/me 200 422
PATCH /v1/me 200 404 409 422
DELETE /v1/me 200 422
GET /v1/me/emails 200 404 422
POST /v1/me/team_display_name 200 404 409 422
GET /v1/me/rate_limit 200 404 422
POST /v1/me/rate_limit/request 200 400 403 404 422 429
GET /v1/gpu_pool/gpu_types 200 422
GET /v1/me/gpu_pool 200 404 422
POST /v1/me/gpu_pool/request 200 400 404 409 422
DELETE /v1/me/gpu_pool/request/{request_id} 200 404 409 422
GET /v1/me/gpu_limit 200
POST /v1/me/gpu_limit/request 200 403 404 422
GET /v1/ssh_keys 200
POST /v1/ssh_keys 200 409 422
DELETE /v1/ssh_keys/{id} 200 404
GET /github/cli/login - 200
POST /v1/deploy 200 404 409 422 423
POST /deploy/hf/ 200 404 409 422 423
POST /deploy/llm 200 402 404 409 422 423
GET /deploy/llm/gpu_availability 200 422
GET /deploy/list 200 400
GET /deploy/{deploy_id} 200 404
PUT /deploy/{deploy_id} 200 400 404 409 422 423
DELETE /deploy/{deploy_id} 200 404 409
POST /deploy/{deploy_id}/stop 200 400 404 409
POST /deploy/{deploy_id}/start 200 400 404 409 423
GET /deploy/stats 200
GET /deploy/{deploy_id}/stats 200 404 410 422
GET /deploy/{deploy_id}/stats2 200 404
GET /v1/logs/query 200 400 404 422
GET /v1/deployment_logs/query 200 400 404 422
GET /models/list - 200
GET /models/featured - 200
GET /models/lora/list - 200
GET /models/private/list 200
GET /models/deployment/list 200
GET /models/{model_name} 200 404
GET /models/{model_name}/schema/{variantKey} 200 403 404 422
GET /models/{model_name}/versions 200 404
DELETE /models/{model_name} 200 404
POST /models/{model_name}/meta 200 404 422
POST /models/{model_name}/publicity 200 404 422
GET /v1/models 200
POST /v1/completions 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/chat/completions 200 400 402 403 404 405 413 422 429 500 502 503 504
POST /v1/compat/embeddings 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/images/generations 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/images/variations 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/images/edits 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/audio/transcriptions 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/audio/translations 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/compat/audio/speech 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/text-to-speech/{voice_id} 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/text-to-speech/{voice_id}/stream 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/inference/{model_name} 200 400 402 403 404 413 422 429 500 502 503 504
POST /v1/inference/deploy/{deploy_id} 200 400 402 403 404 413 422 429 500 502 503 504
GET /v1/voices 200
POST /v1/voices/add 200 400 409 413 422
GET /v1/voices/{voice_id} 200 404
POST /v1/voices/{voice_id}/edit 200 400 404 422
DELETE /v1/voices/{voice_id} 200 400 404
POST /v1/files 200 413 422
GET /v1/files 200 422
GET /v1/files/{file_id} 200 404
GET /v1/files/{file_id}/content 200 404
DELETE /v1/files/{file_id} 200 404
POST /v1/batches 200 400 404 422
GET /v1/batches 200 422
GET /v1/batches/{batch_id} 200 404
POST /v1/batches/{batch_id}/cancel 200 404 409
POST /v1/api-tokens 200 409 422
GET /v1/api-tokens 200
GET /v1/api-tokens/{api_token} 200 404
DELETE /v1/api-tokens/{api_token} 200 404
GET /v1/api-tokens/id/{token_id} 200 404
POST /v1/scoped-jwt 200 404 422
GET /v1/scoped-jwt 200 404 422
GET /v1/lora/{lora_name}/status 200 404
POST /lora-model 200 400 422
DELETE /lora-model/{lora_model_name} 200 404
POST /v1/lora/create 200 422
GET /v1/lora/{lora_name} 200 404
PATCH /v1/lora/{lora_name} 200 404 422
DELETE /v1/lora/{lora_name} 200 404
GET /v1/model/{model_name}/loras 200
GET /v1/user/loras 200
POST /v1/containers 200 400 409 422 429
GET /v1/containers 200
GET /v1/containers/params 200
GET /v1/containers/gpu_availability 200
GET /v1/containers/{container_id} 200 404
PATCH /v1/containers/{container_id} 200 404 422
DELETE /v1/containers/{container_id} 200 404
POST /v1/agent 200 400 402 429 503
GET /v1/agent 200
GET /v1/agent/catalog 200
GET /v1/agent/{instance_id} 200 404
PATCH /v1/agent/{instance_id} 200 404 409
DELETE /v1/agent/{instance_id} 200 404 409
POST /v1/agent/{instance_id}/stop 200 404 409
POST /v1/agent/{instance_id}/start 200 404 409
POST /v1/agent/{instance_id}/update 200 404 409
POST /v1/agent/{instance_id}/launch_token 200 404 409
POST /v1/agent/{instance_id}/backup 200 404 409
GET /v1/agent/{instance_id}/backups 200 404
POST /v1/agent/{instance_id}/backups/{backup_id}/restore 200 404 409
GET /payment/usage 200 422
GET /payment/usage/tokens 200 422
GET /payment/usage/{api_token} 200 404 422
GET /payment/usage/id/{token_id} 200 404 422
GET /payment/usage/rent 200 422
GET /payment/checklist 200 422
GET /payment/billing-portal 200
POST /payment/program/application 200 422
GET /payment/config 200
POST /payment/config 200 422
POST /payment/funds 200 422
POST /payment/topup 200 422
GET /payment/invoices 200 422
GET /payment/key-limits 200
POST /payment/key-limits 200 404 422
POST /v1/request-costs 200 422
GET /v1/webhooks/secret 200
POST /v1/webhooks/secret/rotate 200
GET /healthz - 200
GET /readyz - 200 503
GET /openapi.json - 200
GET /docs - 200
GET /console - 200
`;

/** Other paths of an operation, as the rules of section 2.1 name them. */
const otherPaths = `
POST /v1/completions: /v1/compat/completions /v1/openai/completions
POST /v1/compat/chat/completions: /v1/openai/chat/completions /v1/chat/completions
POST /v1/compat/embeddings: /v1/openai/embeddings /v1/embeddings
POST /v1/compat/images/generations: /v1/openai/images/generations /v1/images/generations
POST /v1/compat/images/variations: /v1/openai/images/variations /v1/images/variations
POST /v1/compat/images/edits: /v1/openai/images/edits /v1/images/edits
POST /v1/compat/audio/transcriptions: /v1/openai/audio/transcriptions /v1/audio/transcriptions
POST /v1/compat/audio/translations: /v1/openai/audio/translations /v1/audio/translations
POST /v1/compat/audio/speech: /v1/openai/audio/speech /v1/audio/speech
GET /v1/models: /v1/compat/models /v1/openai/models
POST /v1/files: /v1/compat/files /v1/openai/files
GET /v1/files: /v1/compat/files /v1/openai/files
POST /v1/batches: /v1/compat/batches /v1/openai/batches
GET /v1/agent: /v1/agents
POST /v1/agent/{instance_id}/backup: /v1/agents/{instance_id}/backup
POST /deploy/hf/: /deploy/hf
GET /deploy/list: /deploy/list/
`;

const lines = (text: string) => text.trim().split("\n");

export const interfaceOperations: readonly InterfaceOperation[] = lines(index).map((line) => {
  const [method = "", path = "", ...rest] = line.split(" ");
  const isPublic = rest[0] === "-";
  const named = (isPublic ? rest.slice(1) : rest).map(Number);
  return { method, path, statuses: isPublic ? named : [...named, 401].sort((a, b) => a - b) };
});

/** Method and path of each alias, with the operation it is another name of. */
export const interfaceAliases: readonly (readonly [method: string, alias: string, path: string])[] = lines(
  otherPaths,
).flatMap((line) => {
  const [of = "", others = ""] = line.split(": ");
  const [method = "", path = ""] = of.split(" ");
  return others.split(" ").map((alias) => [method, alias, path] as const);
});
