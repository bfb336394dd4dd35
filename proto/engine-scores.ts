// Scores in the responses of rerankers, which agents check before they bill and control planes translate.
type Fields = Readonly<Record<string, unknown>>;

/**
 * Scores of an engine's response to `count` documents, in their order: rerankers sort by relevance, scorers do not. Throws on any
 * other format, and unless each document has one finite score.
 */
export function scoresOf(answer: Fields | readonly unknown[], count: number): readonly number[] {
  const { results, data, scores } = Array.isArray(answer) ? { results: answer } : (answer as Fields);
  const ranked = scores ?? results ?? data;
  if (!Array.isArray(ranked)) throw new TypeError("the engine's response has no scores");
  if (ranked.length !== count)
    throw new TypeError(`the engine's response has ${ranked.length} scores for ${count} documents`);
  const found = new Map<unknown, number>();
  for (const [place, one] of ranked.entries()) {
    const { index = place, ...fields } = typeof one === "number" ? { score: one } : (one as Fields);
    const score = fields["relevance_score"] ?? fields["score"];
    if (typeof score !== "number" || !Number.isFinite(score))
      throw new TypeError("the engine's response has a score that is not a finite number");
    found.set(index, score);
  }
  // Read by the documents' places: an index of the engine never sizes an array.
  return Array.from({ length: count }, (_, place) => {
    const score = found.get(place);
    if (score === undefined) throw new TypeError(`the engine's response has no score of document ${place}`);
    return score;
  });
}
