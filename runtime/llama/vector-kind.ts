// Detects a GGUF model that produces vectors or scores instead of text. Pure.
export type VectorKind = "embeddings" | "reranker";

const [poolingNone, poolingRank] = [0, 4];

/** `task`: what the deployment says; empty: what the file says. Undefined = it generates text. */
export function vectorKind(task: string, architecture: string, pooling: number | undefined): VectorKind | undefined {
  if (task === "embeddings" || task === "reranker") return task;
  if (pooling === poolingRank) return "reranker";
  const isEncoder = /bert|^t5encoder$|gemma-embedding/.test(architecture);
  return isEncoder || (pooling !== undefined && pooling !== poolingNone) ? "embeddings" : undefined;
}
