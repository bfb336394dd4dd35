from haystack.components.agents import Agent
from haystack.components.embedders import OpenAITextEmbedder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from driver import base, chat, key, question, rounded, serve, vectors, weather

server = {"api_base_url": base + "/v1", "api_key": Secret.from_token(key), "max_retries": 0}
model = OpenAIChatGenerator(model=chat, **server)
embedder = OpenAITextEmbedder(model=vectors, **server)


def stream():
    parts = []
    model.run([ChatMessage.from_user(question)], streaming_callback=lambda chunk: parts.append(chunk.content or ""))
    return "".join(parts)


def tool():
    agent = Agent(chat_generator=model, tools=[create_tool_from_function(weather)])
    return agent.run(messages=[ChatMessage.from_user(question)])["messages"][-1].text


serve(
    {
        "chat": lambda: model.run([ChatMessage.from_user(question)])["replies"][0].text,
        "chat stream": stream,
        "chat tools": tool,
        "embeddings": lambda: rounded(embedder.run(text)["embedding"] for text in ("one", "two")),
    }
)
