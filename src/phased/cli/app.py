"""The commands of `phased`: demo, run, report, gather, bench, classify, lipread, pack, fit, predict, score and info."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from phased import __version__
from phased.cli import own_data
from phased.cli.bench_command import bench
from phased.cli.errors import RESUMES, Errors, fail, need, plain_errors, plain_warnings, writable
from phased.cli.options import name_first, named, options_help, parse_options, path
from phased.experiments import catalogue
from phased.experiments.run import check_scale

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

ABOUT = {name: about for experiment in catalogue.experiments().values() for name, about in catalogue.commands(experiment).items()}
KNOWN = ", ".join(f"'{name}' ({about})" for name, about in ABOUT.items())

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {KNOWN}.", show_default=False)]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        help="paper, or quick: minutes on two cores. Applies, like the options below, to trained experiments only.",
    ),
]
Seeds = Annotated[int, typer.Option("--seeds", metavar="N", help="Number of seeds: 0 to N - 1.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Runs at the same time on this machine.")]
Cluster = Annotated[str | None, typer.Option("--cluster", metavar="ADDRESS", help="A dask scheduler whose workers do the runs.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")]
Only = Annotated[str, typer.Option("--only", metavar="PATTERN", help="Only runs whose names match, with shell wildcards.")]
Animate = Annotated[bool, typer.Option("--animate", help="Write a moving picture (SVG) instead. 'gate' only.")]
Results = Annotated[Path, path("--results", metavar="DIR", help="The folder of the results.")]
Out = Annotated[Path, path("--out", metavar="DIR", help="The folder for page and pictures; created if needed.")]


Events = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDING...", help="Event files, or folders with event files.", show_default=False, parser=named),
]
Model = Annotated[
    Path | None, path("--model", metavar="FOLDER", help="The model. Default: the one for N-MNIST that comes with phased.")
]
Lines = Annotated[bool, typer.Option("--json", help="Print one line of JSON per file, and nothing else.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip and count files that cannot be read, instead of stopping.")]
Picture = Annotated[
    Path | None,
    path("--picture", metavar="FILE", help="Draw the events and the confidence of one recording: .png, .svg or .pdf."),
]
Corner = Annotated[
    str | None,
    typer.Option("--crop", metavar="X,Y", help="Classify the window of the model's size with its upper left corner at X,Y."),
]
SensorSize = Annotated[
    str | None, typer.Option("--sensor", metavar="W,H", help="Size of the camera in pixels, for files that do not contain it.")
]
Replay = Annotated[bool, typer.Option("--replay", help="Take the events at the pace at which they were recorded.")]
VideoFiles = Annotated[
    list[Path],
    typer.Argument(metavar="CLIP...", help="Video files of GRID, or folders with such files.", show_default=False, parser=named),
]
ReaderModel = Annotated[
    Path | None,
    path("--model", metavar="FOLDER", help="The model. Default: the one for two speakers of GRID that comes with phased."),
]
VideoOnly = Annotated[bool, typer.Option("--video-only", help="Use the face alone.")]
AudioOnly = Annotated[bool, typer.Option("--audio-only", help="Use the voice alone.")]
Align = Annotated[
    Path | None,
    path("--align", metavar="FILE-OR-FOLDER", help="Alignments with the times of words. Default: times are found."),
]
ClipPicture = Annotated[
    Path | None,
    path("--picture", metavar="FILE", help="Draw faces, sound, gates and words of one clip: .png, .svg or .pdf."),
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="The name of a finished run, of digits or of lip reading.", show_default=False)
]
ModelOut = Annotated[Path, path("--out", metavar="FOLDER", help="The folder for the model; created if needed.")]
DataOfRun = Annotated[
    Path | None, path("--data", metavar="FOLDER", help="Of lip reading: the data of the run. Default: PHASED_DATA.")
]
Tested = Annotated[
    Path | None,
    path("--test", metavar="FOLDER", help="Recordings of a camera, one folder per class, to measure the accuracy on."),
]
Into = Annotated[Path | None, path("--out", metavar="DIR", help="The folder to write to: results, or out for pictures.")]


def print_version(wanted: bool) -> None:
    """Print the version and nothing else."""
    if wanted:
        typer.echo(f"phased {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")]


@app.callback()
def phased(version: Version = False) -> None:
    """Recurrent layers whose units work only when their clock opens them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names that are not UTF-8 are printed with escapes
            stream.reconfigure(errors="backslashreplace")


@app.command()
def info() -> None:
    """Print versions, the machine, the available backends, and why the others are not available."""
    from phased.cli.info import describe

    Console().print(describe())


@app.command()
def demo(out: Out = Path("out")) -> None:
    """Train three networks on irregular samples, stream events through them, and make a page (one minute)."""
    need("lightning", "train")
    need("matplotlib", "figures")
    from phased.cli.demo import demo as show

    console = Console()
    with plain_errors(RESUMES), plain_warnings(console):
        summary = show(console, writable(out))
    if summary.failed:
        raise typer.Exit(1)


@app.command(epilog=options_help(), context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    name: Name,
    scale: Scale = "paper",
    seeds: Seeds = 5,
    out: Into = None,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    device: Device = "auto",
    only: Only = "*",
    animate: Animate = False,
) -> None:
    """Run an experiment of the paper: draw it, or train the runs that have no result yet."""
    name, arguments = name_first(name, context.args, ABOUT)
    if name not in ABOUT:
        raise typer.BadParameter(f"there is no experiment '{name}'. Choose one of {KNOWN}.", param_hint="NAME")
    with plain_errors():
        check_scale(scale)
    options = parse_options(name, arguments) if arguments else {}
    if animate and (name not in catalogue.drawn() or catalogue.drawn()[name].animate is None):
        raise typer.BadParameter(f"'{name}' has no moving picture. Leave out --animate.")
    if name in catalogue.drawn():
        draw(name, out or Path("out"), animate)
        return
    need("lightning", "train")
    if jobs > 1:
        need("joblib", "train")
    if cluster is not None:
        need("distributed", "cluster")
    from phased.cli.train import train
    from phased.experiments.sweep import runs_of

    console, folder = Console(), out or Path("results")
    with plain_errors(RESUMES), plain_warnings(console):
        runs = runs_of(name, scale, range(seeds), only, options)
        summary = train(console, runs, writable(folder), jobs, cluster, device)
    if summary.failed:
        raise typer.Exit(1)
    console.print(f"To see the results: phased report --results {folder}", soft_wrap=True, markup=False, highlight=False)


@app.command()
def classify(
    recordings: Events,
    model: Model = None,
    json: Lines = False,
    skip_bad: SkipBad = False,
    picture: Picture = None,
    crop: Corner = None,
    sensor: SensorSize = None,
    replay: Replay = False,
) -> None:
    """Classify recordings of an event camera, event by event, on one core."""
    if picture is not None:
        need("matplotlib", "figures")
    from phased.classifier import Classifier
    from phased.cli import classify as command

    console, errors = Console(), Errors()
    options = command.Options(json, skip_bad, pair("--sensor", sensor), pair("--crop", crop), replay)
    with plain_errors(), plain_warnings(errors):
        if picture is not None:
            command.check_picture(picture, recordings, model)
        classifier = Classifier.load(model)
        try:
            total = command.classify(console, errors, classifier, recordings, options)
        except ModuleNotFoundError as error:  # the reader of camera files is an extra
            fail(str(error))
        if picture is not None and not total.skipped:
            command.picture(classifier, recordings[0], options, picture)
        if json:
            if total.skipped:
                errors.print(f"{total.skipped} skipped.", style="yellow")
        else:
            console.print(str(total), soft_wrap=True, markup=False, highlight=False)
    if not total.recordings:
        raise typer.Exit(1)


@app.command()
def lipread(
    clips: VideoFiles,
    model: ReaderModel = None,
    video_only: VideoOnly = False,
    audio_only: AudioOnly = False,
    align: Align = None,
    json: Lines = False,
    skip_bad: SkipBad = False,
    picture: ClipPicture = None,
) -> None:
    """Recognise the words of clips of GRID, from the speaker's face and voice."""
    need("av", "video")
    need("cv2", "video")
    if picture is not None:
        need("matplotlib", "figures")
    if video_only and audio_only:
        raise typer.BadParameter("--video-only and --audio-only exclude each other. Leave one of them out.")
    from phased.cli import lipread as command
    from phased.lipreader import LipReader

    console, errors = Console(), Errors()
    options = command.Options(json, "video" if video_only else "audio" if audio_only else "both", align, skip_bad)
    with plain_errors(), plain_warnings(errors):
        if picture is not None:
            command.check_picture(picture, clips, model, options)
        reader = LipReader.load(model)
        total = command.lipread(console, errors, reader, clips, options)
        if picture is not None and not total.skipped:
            command.picture(reader, clips[0], options, picture)
        if not json:
            console.print(str(total), soft_wrap=True, markup=False, highlight=False)
    if not total.clips:
        raise typer.Exit(1)


@app.command()
def pack(run: RunName, out: ModelOut, results: Results = Path("results"), test: Tested = None, data: DataOfRun = None) -> None:
    """Make a model for `phased classify` or `phased lipread` from the checkpoint of a finished run."""
    from phased.cli.pack import pack as make

    console = Console()
    with plain_errors(), plain_warnings(console):
        make(console, run, results, out, test, data)


for command in (bench, own_data.fit, own_data.predict, own_data.score):
    app.command()(command)


@app.command()
def report(results: Results = Path("results"), out: Out = Path("out")) -> None:
    """Draw the results and make one page of them; nothing is trained or measured."""
    need("altair", "figures")
    with plain_errors():
        folder = writable(out)
    from phased.cli.report import report as make

    with plain_errors():
        make(Console(), results, folder)


@app.command()
def gather(results: Results = Path("results")) -> None:
    """Move the results of single runs into one sorted file per study, the form for version control."""
    from phased.experiments.folder import gather as into_studies

    console = Console()
    with plain_errors(), plain_warnings(console):
        gathered = into_studies(results)
        for file, count in gathered.items():
            console.print(f"  {file}: {count}", soft_wrap=True, markup=False, highlight=False)
        if not gathered:
            console.print(f"There are no results in '{results}'.", soft_wrap=True, markup=False, highlight=False)


def pair(option: str, value: str | None) -> tuple[int, int] | None:
    """Two whole numbers from an option such as "10,20"."""
    if value is None:
        return None
    first, comma, second = value.partition(",")
    if not (comma and first.strip().isdecimal() and second.strip().isdecimal()):
        raise typer.BadParameter(f"it must be two whole numbers, such as 10,20, got '{value}'.", param_hint=option)
    return int(first), int(second)


def draw(name: str, out: Path, animate: bool) -> None:
    """Compute an experiment without training; print its finding and the files it wrote."""
    need("matplotlib", "figures")
    with plain_errors():
        folder = writable(out)
    console = Console()
    experiment = catalogue.drawn()[name]
    make = experiment.animate if animate else experiment.draw
    assert make is not None
    with plain_errors(), console.status(f"{name}: computing"):
        drawn = make(folder)
    console.print(f"[bold]{name}[/]  {escape(experiment.about)}", highlight=False)
    console.print(drawn.finding, highlight=False, markup=False)
    for file in drawn.files:
        # Not wrapped, so that the path can be copied.
        console.print(f"  {file}", soft_wrap=True, markup=False, highlight=False)
