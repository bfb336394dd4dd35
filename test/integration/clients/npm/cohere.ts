import { base, key, load, question, ranking, serve } from "./driver.ts";

const { CohereClientV2 } = load("cohere-ai");
const client = new CohereClientV2({ environment: base, token: key });

interface Ranked {
  readonly index: number;
  readonly relevanceScore: number;
}

await serve({
  rerank: async () => {
    const found = await client.rerank({ model: ranking, query: question, documents: ["one", "two"] });
    return (found.results as readonly Ranked[]).map(({ index, relevanceScore }) => [index, relevanceScore]);
  },
});
