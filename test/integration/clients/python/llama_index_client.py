from llama_index.core.agent.workflow import FunctionAgent
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

from driver import base, chat, key, question, rounded, serve, vectors, weather

server = {"api_base": base + "/v1", "api_key": key, "max_retries": 0}
model = OpenAILike(model=chat, is_chat_model=True, is_function_calling_model=True, context_window=8192, **server)
embeddings = OpenAILikeEmbedding(model_name=vectors, **server)


async def tool():
    agent = FunctionAgent(tools=[weather], llm=model, streaming=False)
    return str(await agent.run(question))


serve(
    {
        "chat": lambda: model.complete(question).text,
        "chat stream": lambda: "".join(part.delta or "" for part in model.stream_complete(question)),
        "chat tools": tool,
        "embeddings": lambda: rounded(embeddings.get_text_embedding_batch(["one", "two"])),
    }
)
