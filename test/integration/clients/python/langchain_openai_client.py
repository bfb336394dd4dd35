from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from driver import Place, base, chat, key, question, rounded, serve, vectors, weather

server = {"base_url": base + "/v1", "api_key": key, "max_retries": 0}
model = ChatOpenAI(model=chat, **server)
responses = ChatOpenAI(model=chat, use_responses_api=True, **server)
# Sends texts: by default this class sends tokens of OpenAI's tokenizer, which it downloads.
embeddings = OpenAIEmbeddings(model=vectors, check_embedding_ctx_length=False, **server)


def tool(llm):
    bound = llm.bind_tools([weather])
    called = bound.invoke(question)
    [call] = called.tool_calls
    return bound.invoke([HumanMessage(question), called, ToolMessage(weather(**call["args"]), tool_call_id=call["id"])]).text


def features(prefix, llm):
    return {
        prefix: lambda: llm.invoke(question).text,
        f"{prefix} stream": lambda: "".join(chunk.text for chunk in llm.stream(question)),
        f"{prefix} tools": lambda: tool(llm),
        f"{prefix} schema": lambda: llm.with_structured_output(Place).invoke(question).model_dump(),
    }


serve(
    {
        **features("chat", model),
        **features("responses", responses),
        "embeddings": lambda: rounded(embeddings.embed_documents(["one", "two"])),
    }
)
