// Example bodies, by operation. Each is valid against its own schema, and would be accepted if the things it names existed:
// test/contract/open-api.test.ts.

type Examples = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

const llm = {
  model_name: "ada/my-model",
  gpu: "H100-80GB",
  num_gpus: 1,
  hf: { repo: "meta-llama/Llama-3.1-8B-Instruct" },
};
const note = { note: "Asked for by telephone" };
const ticket = "QmWq3VYxw0c4v2Cw7aEo1yC8m0uYk0m5hT3nR1dPz9A";
const renamed = { name: "build machine" };
const spoken = { text: "Good morning", model_id: "hexgrad/Kokoro-82M", output_format: "mp3" };
const chatModel = "meta-llama/Llama-3.1-8B-Instruct";

const inference: Examples = {
  "POST /v1/completions": { model: "meta-llama/Llama-3.1-8B", prompt: "The capital of France is", max_tokens: 16 },
  "POST /v1/responses": { model: chatModel, input: "Hello!", max_output_tokens: 64 },
  "POST /v1/compat/chat/completions": {
    model: chatModel,
    messages: [{ role: "user", content: "Hello!" }],
    max_tokens: 64,
  },
  "POST /v1/messages": {
    model: chatModel,
    max_tokens: 64,
    messages: [{ role: "user", content: "Hello!" }],
  },
  "POST /v1/messages/count_tokens": { model: chatModel, messages: [{ role: "user", content: "Hello!" }] },
  "POST /v1/compat/embeddings": { model: "BAAI/bge-m3", input: ["The first text", "The second text"] },
  "POST /v1/rerank": {
    model: "BAAI/bge-reranker-v2-m3",
    query: "What is the capital of France?",
    documents: ["Paris is the capital of France.", "Berlin is the capital of Germany."],
    top_n: 1,
  },
  "POST /v1/score": { model: "BAAI/bge-reranker-v2-m3", text_1: "Paris", text_2: ["A city", "A fruit"] },
  "POST /v1/compat/moderations": { input: ["I like your garden.", "I will hurt you."] },
  "POST /v1/compat/audio/speech": {
    model: "hexgrad/Kokoro-82M",
    input: "Good morning",
    voice: "af_bella",
    response_format: "mp3",
  },
  "POST /v1/compat/audio/transcriptions": {
    model: "openai/whisper-large-v3",
    file: "@said.wav",
    response_format: "verbose_json",
  },
  "POST /v1/compat/audio/translations": { model: "openai/whisper-large-v3", file: "@said.wav" },
  "POST /v1/compat/images/generations": {
    model: "black-forest-labs/FLUX-1-schnell",
    prompt: "A lighthouse in a storm",
    n: 1,
  },
  "POST /v1/compat/images/variations": { model: "black-forest-labs/FLUX-1-schnell", image: "@cat.png" },
  "POST /v1/compat/images/edits": {
    model: "black-forest-labs/FLUX-1-schnell",
    image: "@cat.png",
    prompt: "A cat with a hat",
  },
  "POST /v1/text-to-speech/{voice_id}/stream": spoken,
  "POST /v1/text-to-speech/{voice_id}": spoken,
  "POST /v1/inference/{model_name}": { input: "The capital of France is", max_new_tokens: 16 },
  "POST /v1/inference/deploy/{deploy_id}": { inputs: ["The first text", "The second text"] },
  "POST /v1/voices/add": { name: "Ada", description: "calm", files: "@sample.wav" },
  "POST /v1/voices/{voice_id}/edit": { name: "Ada at work", description: "brisk" },
  "POST /v1/files": { purpose: "batch", file: "@requests.jsonl" },
  "POST /v1/messages/batches": {
    requests: [
      {
        custom_id: "first",
        params: { model: chatModel, max_tokens: 100, messages: [{ role: "user", content: "Hello" }] },
      },
    ],
  },
  "POST /v1/organizations": { display_name: "acme" },
  "POST /v1/projects": { name: "search", monthly_limit: 500 },
  "PATCH /v1/projects/{project_id}": { monthly_limit: 800 },
  "PATCH /v1/members/{id}": { role: "developer" },
  "POST /v1/service-accounts": { name: "nightly evaluation", role: "developer" },
  "POST /v1/invitations": { role: "developer", email: "ada@example.com", project_ids: ["4kQ0bYx1Za9c4kQ0"] },
  "POST /v1/invitations/preview": { token: "the ticket of the link" },
  "POST /v1/invitations/accept": { token: "the ticket of the link" },
  "POST /v1/batches": { input_file_id: "file_abc123", endpoint: "/v1/chat/completions", completion_window: "24h" },
};

const agents: Examples = {
  "POST /mcp": { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} },
};

const deploying: Examples = {
  "POST /deploy/llm": llm,
  "POST /deploy/llm/placement": llm,
  "PUT /deploy/{deploy_id}": { settings: { min_instances: 1, max_instances: 4, inactive_shutdown: 900 } },
  "POST /deploy/hf/": { model_name: "BAAI/bge-m3", task: "embeddings", gpu: "L4-24GB" },
  "POST /deploy/hf/placement": { model_name: "BAAI/bge-m3", task: "embeddings", gpu: "L4-24GB" },
  "POST /v1/deploy": { provider: "huggingface", model_name: "BAAI/bge-m3" },
  "POST /lora-model": { hf_model_name: "ada/my-lora", lora_model_name: "ada/tone", base_model_name: chatModel },
  "POST /v1/lora/create": {
    base_model: "black-forest-labs/FLUX-1-dev",
    lora_name: "ada/ink",
    source: { type: "hf", repo: "ada/ink-lora" },
    private: true,
  },
  "PATCH /v1/lora/{lora_name}": { private: false, description: "Ink drawings" },
  "PUT /v1/model-aliases/{model_name}": {
    targets: [
      { model: chatModel, weight: 95 },
      { model: "meta-llama/Llama-3.3-70B-Instruct", weight: 5 },
    ],
    fallbacks: ["Qwen/Qwen3-8B"],
    sticky: true,
  },
  "POST /models/{model_name}/meta": { description: "Writes in my tone", tags: ["text"] },
  "POST /models/{model_name}/publicity": { public: true },
  "POST /v1/containers": {
    name: "training",
    gpu_config: "1xH100-80GB",
    container_image: "ubuntu-24.04",
    cloud_init_user_data:
      "#cloud-config\nusers:\n  - name: ada\n    ssh_authorized_keys:\n      - ssh-ed25519 AAAA ada\n",
  },
  "PATCH /v1/containers/{container_id}": renamed,
  "POST /v1/agent": { name: "research", agent_type_id: "assistant" },
  "PATCH /v1/agent/{instance_id}": renamed,
};

const account: Examples = {
  "PATCH /v1/me": { first_name: "Ada", company: "Analytical Engines" },
  "POST /v1/me/team_display_name": { display_name: "analytical-engines" },
  "POST /v1/ssh_keys": { name: "laptop", key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ ada@laptop" },
  "POST /v1/api-tokens": { name: "production" },
  "PATCH /v1/api-tokens/id/{api_token}": { allowed_ips: ["203.0.113.0/24"] },
  "PATCH /v1/api-tokens/{api_token}": { allowed_ips: ["203.0.113.0/24"] },
  "POST /v1/auth/sign-up": { email: "ada@example.com", password: "correct horse battery", display_name: "ada" },
  "POST /v1/auth/sign-in": { email: "ada@example.com", password: "correct horse battery" },
  "POST /v1/auth/second-factor": { ticket, code: "492039" },
  "POST /deploy/{deploy_id}/rollback": { version: 3 },
  "POST /v1/auth/reset-password": { email: "ada@example.com" },
  "POST /v1/auth/new-password": { ticket, password: "a longer one than before" },
  "POST /v1/auth/verify-email": { ticket },
  "POST /v1/me/factors": { kind: "totp" },
  "PATCH /v1/me/factors/{id}": { name: "work laptop" },
  "PUT /v1/me/factors": { ticket, name: "telephone", code: "492039" },
  "POST /v1/admin/mail/test": { to: "ops@example.com" },
  "PUT /v1/admin/sign-in-policy": { second_factor: "operators", ...note },
  "POST /v1/admin/identity-providers": {
    name: "Okta",
    issuer: "https://acme.okta.com",
    client_id: "0oa1b2c3",
    client_secret: "from the provider",
    domains: ["acme.com"],
    role_of_group: { engineers: "developer" },
    default_project_ids: ["9dR2cXw7Tb1e9dR2"],
    projects_of_group: { engineers: ["4kQ0bYx1Za9c4kQ0"] },
  },
  "PATCH /v1/admin/identity-providers/{id}": { is_enforced: true },
  "POST /v1/workload-identities": {
    name: "deploy",
    issuer: "https://token.actions.githubusercontent.com",
    audience: "https://stoker.example.com",
    subject: "repo:acme/app:ref:refs/heads/main",
    claims: { environment: "production" },
  },
  "POST /v1/auth/workload-token": {
    workload_identity_id: "4kQ0bYx1Za9c4kQ0bYx1",
    token: "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
  },
  "POST /v1/me/identities": { provider_id: "4kQ0bYx1Za9c" },
  "POST /v1/me/password": { password: "a longer one than before", current_password: "correct horse battery" },
  "POST /v1/scoped-jwt": { api_key_name: "production", models: [chatModel], expires_delta: 3600, spending_limit: 1.5 },
  "POST /v1/realtime/client_secrets": {
    expires_after: { anchor: "created_at", seconds: 600 },
    session: { type: "transcription", audio: { input: { transcription: { model: "openai/whisper-tiny.en" } } } },
  },
  "POST /payment/config": { limit: 50_000 },
  "POST /payment/key-limits": { token_id: "key-of-production", limit: 10_000 },
  "POST /payment/funds": { amount: 2_000 },
  "POST /payment/topup": { enabled: true, amount: 5_000, threshold: 1_000 },
  "POST /v1/request-costs": { requestIds: ["R7X9fdlIaF5GlVisBAi5xR3E"] },
  "POST /payment/program/application": {
    company: "Analytical Engines",
    ceo: "Ada Lovelace",
    funding: "seed",
    founded_on: "2026-01-02",
    website: "https://example.com",
  },
  "POST /v1/me/rate_limit/request": { rate_limit: 400, reason: "A launch in March" },
  "POST /v1/me/gpu_pool/request": { reason: "Two more models", requested_max: { "H100-80GB": 4 } },
  "POST /v1/me/gpu_limit/request": { gpu_type: "H100-80GB", requested_limit: 8, reason: "A launch in March" },
};

const operator: Examples = {
  "POST /v1/admin/topup-requests/{request_id}/fulfil": note,
  "POST /v1/admin/topup-requests/{request_id}/reject": note,
  "POST /v1/admin/usage-quarantine/{record_id}/release": note,
  "POST /v1/admin/usage-quarantine/{record_id}/discard": note,
  "POST /v1/admin/usage-quarantine/discard": { host_id: "host-1", ...note },
  "POST /v1/admin/accounts/{uid}/terms": { credit_line_usd: 500, due_days: 30, ...note },
  "POST /v1/admin/gpu-pool-requests/{request_id}/approve": note,
  "POST /v1/admin/gpu-pool-requests/{request_id}/reject": note,
  "POST /v1/admin/rate-limit-requests/{request_id}/approve": note,
  "POST /v1/admin/rate-limit-requests/{request_id}/reject": note,
  "PUT /v1/admin/accounts/{uid}/limits": { rate_limit: 400, tpm_rate_limit: 2_000_000, ...note },
  "PUT /v1/admin/model-aliases/{model_name}": { targets: [{ model: chatModel }] },
  "PUT /v1/admin/models/{model_name}": { deploy_id: "DpM4BkrjEspUwmTa", pricing: { input: 0.02, output: 0.04 } },
  "POST /v1/admin/external": { name: "org/model", url: "http://203.0.113.7:8000", max_batch_size: 64 },
  "PUT /v1/admin/external/{deploy_id}": { costs: { input: 0.5, output: 1.5 }, monthly_limit: 500 },
  "POST /v1/admin/nodes/tokens": { pool: "rack-4", ttl_seconds: 3600 },
  "POST /v1/admin/nodes/{id}/revoke": note,
  "POST /v1/admin/nodes/{id}/adopt": note,
  "POST /v1/admin/accounts": { email: "ada@example.com", display_name: "ada", credit_usd: 10 },
  "PATCH /v1/admin/accounts/{uid}": { is_admin: true, ...note },
  "POST /v1/admin/accounts/{uid}/credit": { amount_usd: 25, ...note },
  "POST /v1/admin/accounts/{uid}/views": { state: "begin" },
  "POST /v1/admin/accounts/{uid}/suspend": { reason: "admin", ...note },
  "POST /v1/admin/accounts/{uid}/lift": { reason: "admin", ...note },
  "PUT /v1/admin/deployments/{deploy_id}/prefix-cache": { shared: true, ...note },
  "POST /v1/admin/deployments/{deploy_id}/stop": note,
  "POST /v1/admin/deployments/{deploy_id}/restart": note,
  "POST /v1/admin/nodes/{id}/cordon": note,
  "POST /v1/admin/nodes/{id}/drain": { deadline_seconds: 600, ...note },
  "POST /v1/admin/nodes/{id}/end-unknown": { instance_ids: ["instance-1"], ...note },
  "POST /v1/admin/nodes/{id}/uncordon": note,
  "POST /v1/admin/nodes/{node_id}/weights": { repo: "BAAI/bge-m3", pin: true },
  "POST /v1/admin/prices": {
    kind: "model",
    subject: chatModel,
    rates: { input: 0.02, output: 0.04 },
    effective_from: "2027-01-01T00:00:00Z",
    ...note,
  },
  "POST /v1/admin/discounts": { name: "launch", percent: 20, ...note },
  "POST /v1/admin/program-applications/{id}/approve": { credit_usd: 1_000, ...note },
  "POST /v1/admin/program-applications/{id}/reject": note,
};

export const bodyExamples: Examples = { ...inference, ...agents, ...deploying, ...account, ...operator };
