"""LiteLLM's module and router, name by name: no way to call a model goes by unseen."""

import inspect

import litellm
import pytest
from client_histories import chat
from litellm._lazy_imports import get_lazy_import_registry

import agentctx
from agentctx import wrap
from agentctx.clients.litellm import PREPARED, REFUSED

NO_MODEL_CALL = """
a_add_message acode_interpreter_tool acount_tokens acreate_realtime_client_secret
acreate_realtime_transcription_session acreate_sandbox add_message add_system_prompt_to_messages
adelete_sandbox agent_capabilities aguardrail ahealth_check arealtime_calls arun_code
async_callback_filter_deployments async_function_with_fallbacks async_function_with_retries
async_get_available_deployment async_get_available_deployment_for_pass_through async_get_healthy_deployments
async_mock_completion_streaming_obj async_pre_routing_hook azure_ai_supports_native_responses
bedrock_mantle_chat_config cancel_batch cancel_eval cancel_fine_tuning_job cancel_interaction
cancel_responses cancel_run completion_cost compress convert_model_response_to_streaming
convert_to_model_response_object convert_to_streaming_response convert_to_streaming_response_async
create_agent create_assistants create_batch create_container create_eval create_file create_fine_tuning_job
create_health_check_response create_run create_skill create_thread custom_chat_llm_router custom_prompt
decisions delete_agent delete_assistant delete_container delete_container_file delete_eval
delete_interaction delete_responses delete_run delete_skill embedding enable_cache file_content file_delete
file_list file_retrieve foundry_chat_rejects_function_tools_while_reasoning function_call_prompt
function_with_fallbacks generate_model_id get_agent get_assistants get_available_deployment
get_available_deployment_for_pass_through get_completion_messages get_content_from_model_response
get_error_message get_eval get_first_chars_messages get_interaction get_litellm_params get_messages
get_modified_max_tokens get_non_default_completion_params get_optional_params
get_optional_params_add_message get_optional_params_embeddings get_optional_params_image_gen
get_optional_params_transcription get_response_headers get_response_string get_responses get_run get_skill
get_thread image_edit image_generation image_variation increment_deployment_usage_for_response ingest
invalid_provider_routing_hints_message
list_agent_versions list_agents list_batches list_container_files list_containers list_evals
list_fine_tuning_jobs list_input_items list_runs list_skills make_call map_system_message_pt mock_completion
mock_completion_streaming_obj mock_responses_api_response moderation ocr ollama_pt process_response_headers
prompt_factory redact_message_input_output_from_logging remove_index_from_tool_calls rerank
response_cost_calculator responses_api_bridge_check retrieve_batch retrieve_container
retrieve_container_file retrieve_container_file_content retrieve_fine_tuning_job run_async_function
run_thread run_thread_stream search set_response_headers should_run_mock_completion speech
stream_chunk_builder stream_chunk_builder_text_completion stringify_json_tool_call_content
supports_response_schema supports_system_messages systemone token_counter transcription update_cache
update_messages_with_model_file_ids update_response_metadata update_settings upload_container_file
validate_and_fix_openai_messages validate_chat_completion_tool_choice validate_openai_optional_params
vector_store_create vector_store_delete vector_store_file_content vector_store_file_create
vector_store_file_delete vector_store_file_list vector_store_file_retrieve vector_store_file_update
vector_store_list vector_store_retrieve vector_store_search vector_store_update video_content
video_create_character video_edit video_extension video_generation video_get_character video_list
video_remix video_status
"""
"""What has the signature or the name of a model call and is none that has a conversation of its own: other media, what
a provider keeps, and what only looks at requests and answers. With an ``a`` before it, the same for async callers."""
WORDS = ("completion", "response", "message", "generate", "chat", "agent", "loop", "query")
TAKES = {"messages", "input", "prompt", "contents"}
pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM's and pydantic's, of LiteLLM's own types


def pipeline():
    return agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(1_000))


def looks_like_a_model_call(name, function):
    """Whether a public function of LiteLLM takes what models are given, anything at all, or is called like it."""
    if not inspect.isroutine(function) or not (function.__module__ or "").startswith("litellm"):
        return False
    taken = inspect.signature(function).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    return anything or bool(TAKES & taken.keys()) or any(word in name for word in WORDS)


def names_of(owner):
    lazily = {*get_lazy_import_registry(), *litellm._AGENT_EXPORTS} if owner is litellm else ()
    return sorted(name for name in {*dir(owner), *lazily} if not name.startswith("_"))


def unknown_of(owner):
    looking = [name for name in names_of(owner) if looks_like_a_model_call(name, getattr(owner, name, None))]
    listed = {*PREPARED, *REFUSED, *(each for name in NO_MODEL_CALL.split() for each in (name, f"a{name}"))}
    return [name for name in looking if name not in listed]


def test_every_name_of_the_module_is_known():
    """What the installed LiteLLM's module has is prepared, refused or known to be no model call."""
    assert unknown_of(litellm) == []


def test_every_name_of_a_router_is_known():
    """The same for a router's methods, and for what it has as attributes."""
    assert unknown_of(litellm.Router(model_list=[])) == []


def test_the_module_refuses_what_it_cannot_prepare():
    """Each other model call says what to call instead, in the module, in modules within, and by itself."""
    wrapped = wrap(litellm, pipeline())
    within = wrapped.google_genai, wrapped.interactions, wrapped.anthropic, wrapped.anthropic.messages
    calls = [getattr(wrapped, name) for name in REFUSED]
    calls += [within[0].agenerate_content_stream, *(each.acreate for each in within[1:])]
    for call in calls:
        with pytest.raises(agentctx.ConfigError, match=r"cannot be prepared: .*(completion|responses|messages)"):
            call(model="gpt-4o", messages=chat(2))
    with pytest.raises(agentctx.ConfigError, match="call completion"):
        wrap(litellm.atext_completion, pipeline())


def test_model_calls_are_seen_by_whatever_module_they_are_reached():
    """No module within the module, or within those, leads to a model call past the one that is prepared or refused."""
    wrapped = wrap(litellm, pipeline())
    names = [name for name in (*PREPARED, *REFUSED) if inspect.isfunction(getattr(litellm, name, None))]
    real = {inspect.unwrap(getattr(litellm, name)) for name in names}
    reached = []
    for first, inner in [*vars(litellm).items()]:
        if inspect.ismodule(inner) and inner.__name__.startswith("litellm."):
            for name, value in [*vars(inner).items()]:
                if inspect.isfunction(value) and inspect.unwrap(value) in real:
                    reached.append((first, name))
                    assert getattr(getattr(wrapped, first), name) is not value
    assert {("main", "completion"), ("main", "acompletion"), ("main", "text_completion")} <= set(reached)
    with pytest.raises(agentctx.ConfigError, match="anthropic_messages"):
        wrapped.anthropic_interface.messages.acreate(model="claude-haiku-4-5", messages=chat(2), max_tokens=9)


def test_a_router_refuses_what_it_cannot_prepare():
    """A router refuses the same, and goes on with what is no model call."""
    router = litellm.Router(model_list=[])
    wrapped = wrap(router, pipeline())
    refused = [name for name in REFUSED if hasattr(router, name)]
    assert {"atext_completion", "abatch_completion", "agenerate_content", "schedule_acompletion"} <= set(refused)
    for name in refused:
        with pytest.raises(agentctx.ConfigError, match="cannot be prepared"):
            getattr(wrapped, name)(model="gpt-4o", messages=chat(2))
    assert wrapped.get_model_list() == router.get_model_list()
    wrapped.aresponses = router.acompletion
    assert router.aresponses == router.acompletion
