/** Chat request of the playground and of the code snippets. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly max_tokens: number;
  readonly temperature: number;
}

export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}
